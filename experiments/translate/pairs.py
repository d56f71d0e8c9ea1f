"""What a command line gives to read: two files whose lines correspond, or tab-separated lines."""

import itertools
import sys
from collections.abc import Iterator

from attn_jax.data.lines import read_lines
from experiments.command_line import Command
from experiments.translate.system import CHUNK


def chunk_of(command: Command) -> int:
    """How many lines are read before the first is answered: 1 where they are typed at a terminal."""
    return 1 if not command.options["input"] and sys.stdin.isatty() else CHUNK


def given_pairs(command: Command, *, complete: bool = True) -> Iterator[tuple[str, str | None]]:
    """Sources and targets, one pair a line, as they come; blank lines are pairs of blank sides.

    Lines of `--input`, or of standard input, beside those of `--target`; where that is not given,
    each line is `source TAB target`, and a third column is ignored.

    Args:
      command: what was asked for.
      complete: refuse a line without a target; else its target is None.

    Raises:
      FileNotFoundError: there is no such file; at once, not at the first line.
      ValueError: the files have different numbers of lines, or a line has no target.
    """
    given, other = command.options["input"], command.options["target"]
    sources = read_lines(given or sys.stdin)
    if other is None:
        return (_split(line, number, complete) for number, line in enumerate(sources, 1))
    return _beside(sources, read_lines(other), (given or "standard input", other))


def _split(line: str, number: int, complete: bool) -> tuple[str, str | None]:
    source, *rest = line.split("\t")
    if not line.strip():
        return "", ""
    if not rest and complete:
        raise ValueError(
            f"line {number} has no target: write source TAB target, or give the targets in a file,"
            " --target=FILE"
        )
    return source, rest[0] if rest else None


def _beside(
    sources: Iterator[str], targets: Iterator[str], names: tuple[str, str]
) -> Iterator[tuple[str, str | None]]:
    number = 0
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets), 1):
        if source is None or target is None:
            short, long = names if source is None else names[::-1]
            count = number + sum(1 for _ in (targets if source is None else sources))
            raise ValueError(
                f"expected files whose lines correspond: {short} has {number - 1} lines, {long} has"
                f" {count}"
            )
        yield source, target
