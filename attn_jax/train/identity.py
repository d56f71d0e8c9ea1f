"""Whether a run may go on from what an earlier one left: what changed, and what may change."""

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any


class Mismatch(ValueError):
    """A run was asked to go on as something it was not begun as; the message lists what differs."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """One field that is not as it was.

    Attributes:
      name: dotted path of the field.
      old: what it was; `None` where it was not there.
      new: what it is now; `None` where it is gone.

    >>> str(Difference("optimizer.peak", 0.002, 0.001))
    'optimizer.peak: 0.002 -> 0.001'
    """

    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.old!r} -> {self.new!r}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """What differs between two nested mappings, in the order of dotted names.

    Both are compared as JSON would hold them: a tuple equals a list.

    >>> [str(d) for d in differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})]
    ['a.c: 2 -> 3']
    """
    before, after = _flat(_plain(old)), _flat(_plain(new))
    names = sorted(before.keys() | after.keys())
    return [
        Difference(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name) or (name in before) != (name in after)
    ]


def compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    free: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    what: str = "config",
) -> list[Difference]:
    """The differences that may be; refuses if there are others.

    Args:
      old: what the run was begun with.
      new: what it is to go on with.
      free: dotted names that may change, each with all that is below it.
      defaults: what `old` is taken to say where it says nothing, as a run does of a field that did
        not exist yet when it was begun.
      what: what is compared, for the message.

    Returns:
      The differences, all of them in `free`.

    Raises:
      Mismatch: a field that may not change has; the message lists them all.

    >>> [str(d) for d in compare({"steps": 10, "width": 8}, {"steps": 20, "width": 8},
    ...                          free={"steps"})]
    ['steps: 10 -> 20']
    >>> compare({"steps": 10, "width": 8}, {"steps": 20, "width": 9}, free={"steps"})
    Traceback (most recent call last):
    attn_jax.train.identity.Mismatch: this run was begun with another config:
      width: 8 -> 9
    go back to it, or choose another workdir
    """
    changed = differences(_completed(_plain(old), _plain(defaults or {})), new)
    refused = [d for d in changed if not any(_below(d.name, name) for name in free)]
    if refused:
        listed = "".join(f"\n  {difference}" for difference in refused)
        raise Mismatch(
            f"this run was begun with another {what}:{listed}"
            "\ngo back to it, or choose another workdir"
        )
    return changed


def _below(name: str, ancestor: str) -> bool:
    return name == ancestor or name.startswith(f"{ancestor}.")


def _plain(values: Any) -> Any:
    if dataclasses.is_dataclass(values) and not isinstance(values, type):
        values = dataclasses.asdict(values)
    return json.loads(json.dumps(values, default=str))


def _completed(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Values, with the defaults of what they do not have."""
    nested = {
        name: _completed(value, defaults[name])
        for name, value in values.items()
        if isinstance(value, dict) and isinstance(defaults.get(name), dict)
    }
    return {**defaults, **values, **nested}


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, dict) or not values:
        return {prefix: values} if prefix else {}
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}.{name}" if prefix else name)
    return flat
