"""`--config.a.b=value` on a command line: which fields they name, and what to say of wrong ones."""

import dataclasses
import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any


class UsageError(ValueError):
    """A command line that cannot be understood."""


def fields(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a config, and of the configs in it, with their dotted names."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from fields(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, value


def named(word: str) -> str:
    """The field that a word of a command line overrides; empty if it overrides none.

    >>> named("--config.train.steps=3"), named("--noconfig.model.tied"), named("--workdir=x")
    ('train.steps', 'model.tied', '')
    """
    found = re.match(r"--?(?:no)?config\.([^=]*)", word)
    return found[1] if found else ""


def check(config: Any, name: str) -> None:
    """Refuses an override of what is not there, and of a section as a whole.

    Raises:
      UsageError: with the nearest name that is there.
    """
    value, parts = config, name.split(".")
    for i, part in enumerate(parts):
        known = (
            [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
        )
        if part not in known:
            guess = _guess(config, parts, i, known)
            hint = f"; did you mean --config.{guess}?" if guess else f"; there are {_list(config)}"
            raise UsageError(f"the config has no field {name!r}{hint}")
        value = getattr(value, part)
    if dataclasses.is_dataclass(value):
        raise UsageError(f"--config.{name} is a section; its fields are {_list(value)}")


def check_seeds(config: Any) -> None:
    """Refuses seeds that no generator of random numbers takes.

    Raises:
      UsageError: a field called `seed` is below 0 or above 2**32 - 1.
    """
    for name, value in fields(config):
        if name.split(".")[-1] == "seed" and not 0 <= value < 2**32:
            raise UsageError(f"--config.{name} is from 0 to 2**32 - 1; given {value}")


def explained(config: Any, message: str) -> str:
    """What to say of a value of the wrong type, given what absl says of it."""
    found = re.match(r"flag --config\.([\w.]+)=(.*?): ", message)
    if not found:
        return message
    value = dict(fields(config))[found[1]]
    kind = {bool: "true or false", int: "an integer", float: "a number"}.get(type(value), "a value")
    return f"--config.{found[1]} takes {kind}, such as {value}; given {found[2]!r}"


def nearest(name: str, known: Sequence[str]) -> str:
    """The known name most like a given one; empty if none is like it."""
    return next(iter(difflib.get_close_matches(name, known, 1, 0.5)), "")


def _guess(config: Any, parts: list[str], i: int, known: list[str]) -> str:
    """The field that was perhaps meant by `parts`, whose i-th is not among the known ones."""
    everything = [name for name, _ in fields(config)]
    like = nearest(parts[i], known)
    mended = ".".join([*parts[:i], like, *parts[i + 1 :]])
    if like and any(name == mended or name.startswith(f"{mended}.") for name in everything):
        return mended
    elsewhere = [name for name in everything if name.split(".")[-1] == parts[-1]]
    return elsewhere[0] if elsewhere else nearest(".".join(parts), everything)


def _list(config: Any) -> str:
    return ", ".join(field.name for field in dataclasses.fields(config))
