"""Several processes as one run: how they join, and how they agree on what one of them knows."""

from collections.abc import Callable

import jax
import numpy as np
from jax.experimental import multihost_utils

_LONGEST_MESSAGE = 2048


def join(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Makes this process one of several that run the same program; before any device is touched.

    With no arguments, JAX asks Slurm, Kubernetes, Open MPI or a Cloud TPU who is who. SIGTERM stays
    with whoever listens to it in Python.

    Args:
      coordinator: `host:port` where process 0 listens and all others find it.
      processes: how many there are.
      process: which of them this is, from 0.

    Raises:
      ValueError: some of the three are given and some not, or nobody knows who is who.
    """
    given = {"coordinator": coordinator, "processes": processes, "process": process}
    missing = [name for name, value in given.items() if value is None]
    if missing and len(missing) < len(given):
        raise ValueError(
            f"expected coordinator, processes and process together, but not {', '.join(missing)}; "
            "leave all three away where the scheduler knows them"
        )
    if processes is not None and processes < 1:
        raise ValueError(f"expected at least 1 process, got {processes}")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ValueError(f"expected process from 0 to {processes - 1}, got {process}")
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(coordinator, processes, process)
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"cannot join the other processes ({reason}); give coordinator, processes and process "
            "where no scheduler says them"
        ) from error


def several() -> bool:
    """Whether other processes have joined this one."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_first() -> bool:
    """Whether this is the process that speaks and writes for all; true where it is alone."""
    return not several() or jax.process_index() == 0


def any_of(flag: bool) -> bool:
    """Whether it is true in any process; all ask at the same point of the program."""
    if not several():
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def first_alone(action: Callable[[], object]) -> None:
    """Does something in the first process while the others wait, and fails in all if it fails.

    Raises:
      ValueError: in the other processes, with the message of what was raised in the first.

    >>> first_alone(lambda: print("done once"))
    done once
    """
    failure: Exception | None = None
    if is_first():
        try:
            action()
        except Exception as error:
            if not several():
                raise
            failure = error
    if not several():
        return
    said = np.zeros(_LONGEST_MESSAGE, np.uint8)
    if failure is not None:
        text = (str(failure) or type(failure).__name__).encode()[:_LONGEST_MESSAGE]
        said[: len(text)] = np.frombuffer(text, np.uint8)
    heard = bytes(np.asarray(multihost_utils.broadcast_one_to_all(said))).rstrip(b"\0")
    if failure is not None:
        raise failure
    if heard:
        raise ValueError(heard.decode(errors="ignore"))
