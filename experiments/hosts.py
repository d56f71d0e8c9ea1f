"""`--distributed`: the same command in several processes, on as many hosts, is one run."""

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from absl import flags

from attn_jax.train.distributed import is_first, join
from experiments.overrides import UsageError


class Hosts(NamedTuple):
    """Who is who; what is None, the scheduler knows.

    Args:
      coordinator: `host:port` of process 0.
      processes: how many there are.
      process: which this is.
    """

    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Joins the others; what is printed on stdout is printed by the first of them alone."""
        join(*self)
        if is_first():
            yield
            return
        with open(os.devnull, "w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
            yield


def define(values: flags.FlagValues) -> None:
    """The flags by which a run is told of its hosts."""
    together = "one of several processes that are one run; Slurm, Kubernetes and TPUs say which"
    flags.DEFINE_bool("distributed", False, together, flag_values=values)
    address = "host:port of process 0, where no scheduler says it"
    flags.DEFINE_string("coordinator", None, address, flag_values=values)
    flags.DEFINE_integer("processes", None, "how many there are", flag_values=values)
    flags.DEFINE_integer("process", None, "which this is, from 0", flag_values=values)


def asked(values: flags.FlagValues) -> Hosts | None:
    """What the flags say; None for a process that is alone.

    Raises:
      UsageError: it is said which process this is, and not that there are several.
    """
    hosts = Hosts(*(values[name].value for name in Hosts._fields))
    if values.distributed:
        return hosts
    if given := [name for name in Hosts._fields if getattr(hosts, name) is not None]:
        raise UsageError(f"--{given[0]} is of --distributed, which was not given")
    return None
