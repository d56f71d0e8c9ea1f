"""The command line that experiments share: `--config=FILE[:VARIANT] --config.a.b=value --workdir`.

A config is a plain dataclass of numbers, strings, booleans and further dataclasses, returned by
`get_config(variant)` of a Python file. What a user got wrong is told in one line on stderr, with
exit code 2, and never as a traceback; `--traceback` shows where it was noticed.
"""

import contextlib
import dataclasses
import importlib.util
import inspect
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import config_flags

from attn_jax.train import NonFinite, Unreadable, WorkdirBusy
from experiments import overrides
from experiments.hosts import Hosts, asked, define
from experiments.overrides import UsageError

DIVERGED = 1
USER_ERROR = 2
INTERRUPTED = 130
TERMINATED = 143


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What the command line needs to know of an experiment.

    Args:
      name: as in `python -m experiments.NAME`.
      config: the class of its configs; None where it takes none.
      modes: its stages, the default first.
      options: flags of its own, all strings: name to help.
      distributed: the modes that several hosts can do together.
      help: what it does, for `--help`.
    """

    name: str
    config: type | None
    modes: tuple[str, ...] = ("train",)
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    distributed: tuple[str, ...] = ()
    help: str = ""

    @property
    def program(self) -> str:
        """How it is called."""
        return f"python -m experiments.{self.name}"


@dataclasses.dataclass(frozen=True)
class Command:
    """What was asked for.

    Args:
      config: the dataclass that the config file returned, overrides applied; None without one.
      workdir: where the run reads and writes.
      mode: one of the experiment's stages.
      options: the experiment's own flags, by name; None where not given.
      hosts: that do it together; None for this process alone.
    """

    config: Any
    workdir: Path
    mode: str
    options: Mapping[str, str | None]
    hosts: Hosts | None = None


def run(
    experiment: Experiment, main: Callable[[Command], None], argv: Sequence[str] | None = None
) -> int:
    """Parses a command line, runs `main`, and tells users' errors in one line and a code.

    Users' errors are bad arguments (`ValueError`), bad files (`OSError`, `Unreadable`) and a workdir
    that is in use (`WorkdirBusy`); a run that diverged (`NonFinite`) is told in a line as well.
    Anything else is a fault of the program, and keeps its traceback.

    Args:
      experiment: what is run.
      main: runs it.
      argv: arguments without the program's name; those of the process by default.

    Returns:
      The exit code: 0, or 2 for a user's error, 1 for a run that diverged, 130 when interrupted,
      143 when told to end by SIGTERM.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    told = warnings.formatwarning
    hears = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    hears = hears and threading.current_thread() is threading.main_thread()
    if hears:
        signal.signal(signal.SIGTERM, _end)
    warnings.formatwarning = lambda message, *_: f"{experiment.program}: {message}\n"
    try:
        if len(rest := [word for word in argv if not re.fullmatch("--?h(elp)?", word)]) < len(argv):
            print(described(experiment, rest))
        else:
            command = parse(experiment, argv)
            with command.hosts.together() if command.hosts else contextlib.nullcontext():
                main(command)
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    except _Ended:
        return TERMINATED
    except (ValueError, OSError, Unreadable, WorkdirBusy, NonFinite) as error:
        if "--traceback" in argv:
            raise
        message = "\n".join([str(error), *getattr(error, "__notes__", [])])
        message = re.sub(r"(?<=[^:;,.\s])\s*\n", "; ", message)
        print(f"{experiment.program}: {' '.join(message.split())}", file=sys.stderr)
        return DIVERGED if isinstance(error, NonFinite) else USER_ERROR
    finally:
        warnings.formatwarning = told
        if hears:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return 0


class _Ended(BaseException):
    """SIGTERM came; nothing is left half written on the way out."""


def _end(*_: object) -> None:
    raise _Ended


def parse(experiment: Experiment, argv: Sequence[str]) -> Command:
    """Reads a command line.

    Raises:
      UsageError: it cannot be understood; the message names the nearest thing that can be.
    """
    path, rest = _pop_config(argv)
    values, config = _flags(experiment), None
    if experiment.config is not None:
        config = _config(experiment, path)
        for word in rest:
            if name := overrides.named(word):
                overrides.check(config, name)
    elif path:
        raise UsageError(f"there are no configs for this; got --config={path}")
    try:
        if config is not None:
            config_flags.DEFINE_config_dataclass(
                "config", config, "the config", flag_values=values, sys_argv=["", *rest]
            )
        stray = values(["", *rest])[1:]
    except flags.Error as error:
        told = str(error) if config is None else overrides.explained(config, str(error))
        raise UsageError(told) from error
    if stray:
        raise UsageError(f"cannot understand {stray[0]!r}; write flags as --name=value")
    for name in ("workdir", *experiment.options):
        if values[name].value == "":
            raise UsageError(f"--{name}= is empty; give it a value, or leave it out")
    if config is not None:
        overrides.check_seeds(values.config)
    return Command(
        config=values.config if config is not None else None,
        workdir=Path(values.workdir or Path("runs", experiment.name, _slug(path))),
        mode=values.mode,
        options={name: values[name].value for name in experiment.options},
        hosts=_hosts(experiment, values),
    )


def _hosts(experiment: Experiment, values: flags.FlagValues) -> Hosts | None:
    hosts = asked(values) if experiment.distributed else None
    if hosts is not None and values.mode not in experiment.distributed:
        modes = " and ".join(f"--mode={mode}" for mode in experiment.distributed)
        raise UsageError(f"--mode={values.mode} runs alone; --distributed is for {modes}")
    return hosts


def _config(experiment: Experiment, path: str) -> Any:
    if not path:
        raise UsageError("which config? give --config=FILE[:VARIANT], one of configs/")
    config = load(path)
    if experiment.config is None or not isinstance(config, experiment.config):
        raise UsageError(f"{path} is not a config of experiments.{experiment.name}")
    return config


def variant(name: str, known: Iterable[str]) -> str:
    """The name itself, if a config file knows a variant of that name.

    Raises:
      UsageError: it does not; the message lists what it knows.
    """
    known = list(known)
    if name not in known:
        raise UsageError(f"the config has no variant {name!r}; there are {', '.join(known)}")
    return name


def load(path: str) -> Any:
    """What `get_config()` of a Python file returns, or `get_config(VARIANT)` if one is named.

    Raises:
      UsageError: there is no such file, or it has no variants.
    """
    file, _, name = path.partition(":")
    spec = importlib.util.spec_from_file_location("config", file)
    if spec is None or spec.loader is None or not Path(file).is_file():
        raise UsageError(f"no config file {file}; give one of configs/, a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "get_config"):
        raise UsageError(f"{file} has no function get_config")
    if name and not inspect.signature(module.get_config).parameters:
        raise UsageError(f"{file} has no variants; got {name!r}")
    return module.get_config(*filter(None, [name]))


def described(experiment: Experiment, argv: Sequence[str]) -> str:
    """What can be given; if a config is, every field of it with its value."""
    usage = experiment.program
    if experiment.config is not None:
        usage += " --config=FILE[:VARIANT] [--config.FIELD=VALUE ...]"
    parts = [usage, experiment.help, _flags(experiment).get_help()]
    if _pop_config(argv)[0]:
        listed = overrides.fields(parse(experiment, argv).config)
        parts.append("\n".join(f"  --config.{name}={value}" for name, value in listed))
    return "\n\n".join(filter(None, parts))


def _flags(experiment: Experiment) -> flags.FlagValues:
    values = flags.FlagValues()
    named = "" if experiment.config is None else "/CONFIG[-VARIANT]"
    where = f"where to read and write; runs/{experiment.name}{named} by default"
    flags.DEFINE_string("workdir", None, where, flag_values=values)
    flags.DEFINE_enum("mode", experiment.modes[0], experiment.modes, "stage", flag_values=values)
    flags.DEFINE_bool("traceback", False, "show where an error was noticed", flag_values=values)
    for name, text in experiment.options.items():
        flags.DEFINE_string(name, None, text, flag_values=values)
    if experiment.distributed:
        define(values)
    return values


def _pop_config(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The value of `--config`, empty if it is not there, and the other words."""
    for i, word in enumerate(argv):
        if found := re.fullmatch("--?config(?:=(.*))?", word):
            if found[1] is not None:
                return found[1], [*argv[:i], *argv[i + 1 :]]
            return "".join(argv[i + 1 : i + 2]), [*argv[:i], *argv[i + 2 :]]
    return "", list(argv)


def _slug(config: str) -> str:
    path, _, name = config.partition(":")
    return "-".join(filter(None, (Path(path).stem, re.sub(r"[^\w.-]+", "-", name))))
