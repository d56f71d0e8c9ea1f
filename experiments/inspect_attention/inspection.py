"""What looking into a model gives."""

from collections.abc import Collection
from typing import NamedTuple

from attn_jax.diagnostics.report import Report
from experiments.command_line import Command
from experiments.looking import Looked
from experiments.overrides import UsageError


class Inspection(NamedTuple):
    """A page, and what was seen; None where a model keeps its attention to itself."""

    report: Report
    looked: Looked | None


def refuse(command: Command, options: Collection[str], what: str) -> None:
    """Refuses options that were given and mean nothing for what is looked into.

    Raises:
      UsageError: naming the first.
    """
    for name in options:
        if command.options[name] is not None:
            raise UsageError(f"--{name} means nothing for {what}")
