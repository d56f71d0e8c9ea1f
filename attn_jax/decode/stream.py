"""A stream of sequences through a search: a few fixed shapes inside, one answer each outside."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_jax.decode.hypotheses import SPECIALS, Hypotheses, Specials

Search = Callable[[NDArray[np.int32]], Hypotheses]


@dataclass(frozen=True)
class Shapes:
    """The shapes of the batches that a search is compiled for.

    Widths grow by a half and a third in turn: 8, 12, 16, 24, 32, 48, and so on, the last one being
    `longest`. Batches of one width have one number of rows, full or not. Which program a
    sequence meets thus depends on its own length alone, whatever comes before or after it.

    Args:
      tokens: cells of a batch, rows × width, padding included.
      longest: the greatest length of a source, its end token included.
      divisor: rows of a batch are a multiple of this, and at least this, so that devices can share
        them evenly.

    Raises:
      ValueError: a number is not positive.

    >>> [(w, Shapes(tokens=512).rows(w)) for w in map(Shapes().width, (3, 9, 13, 30, 200))]
    [(8, 64), (12, 42), (16, 32), (32, 16), (256, 2)]
    """

    tokens: int = 2048
    longest: int = 256
    divisor: int = 1

    def __post_init__(self) -> None:
        if min(self.tokens, self.longest, self.divisor) < 1:
            raise ValueError(f"expected tokens, longest and divisor of at least 1, got {self}")

    def width(self, length: int) -> int:
        """The width of the batch that a source of some length goes into."""
        width = 8
        while width < length:
            width += width // 2 if width & (width - 1) == 0 else width // 3
        return min(width, self.longest)

    def rows(self, width: int) -> int:
        """How many rows a batch of this width has."""
        return max(1, self.tokens // width // self.divisor) * self.divisor


class Found(NamedTuple):
    """What was found for one source: its n best, best first.

    Args:
      tokens: the hypotheses, without end tokens; one that is empty for an empty source.
      scores: what they were ranked by.
      log_probabilities: the model's, natural.
      cut: how many tokens of the source were beyond the longest width, and left out.
    """

    tokens: list[list[int]]
    scores: list[float]
    log_probabilities: list[float]
    cut: int = 0


def stream(
    sources: Iterable[Sequence[int]],
    search: Search,
    *,
    shapes: Shapes = Shapes(),
    chunk: int = 4096,
    specials: Specials = SPECIALS,
) -> Iterator[Found]:
    """Searches for every source, in any number of them, and answers in their order.

    Sources are read a chunk at a time, sorted by length inside it, padded to the few `shapes`, and
    answered before the next chunk is read: memory is bounded by the chunk, and nothing waits for
    the end of the stream. While the device works on one batch, the next is made ready.

    Args:
      sources: tokens without the end token, which is added here. One that is empty is not searched
        for. One that is too long is cut, and its answer says by how much.
      search: from `b s` int32 sources to hypotheses; jit it, and it compiles once for each shape.
        Rows that fill up a batch are all padding.
      shapes: of the batches.
      chunk: how many sources are read before the first is answered; 1 answers each as it comes.
      specials: the ids for padding and end.

    Yields:
      One answer for each source, in order.

    Raises:
      ValueError: `chunk` is below 1.
    """
    if chunk < 1:
        raise ValueError(f"expected chunk >= 1, got {chunk}")
    remaining = iter(sources)
    while lines := list(islice(remaining, chunk)):
        answers: list[Found] = [Found([[]], [0.0], [0.0])] * len(lines)
        waiting: list[tuple[list[int], Hypotheses]] = []
        for members, batch in _batches(lines, shapes, specials):
            waiting.append((members, search(batch)))
            if len(waiting) > 1:
                _collect(*waiting.pop(0), lines, answers, shapes)
        for members, hypotheses in waiting:
            _collect(members, hypotheses, lines, answers, shapes)
        yield from answers


def _batches(
    lines: list[Sequence[int]], shapes: Shapes, specials: Specials
) -> Iterator[tuple[list[int], NDArray[np.int32]]]:
    """The numbers of the lines in a batch, and the batch; lines without tokens are left out."""
    by_width: dict[int, list[int]] = {}
    for i in sorted(range(len(lines)), key=lambda i: len(lines[i])):
        if len(lines[i]):
            by_width.setdefault(shapes.width(len(lines[i]) + 1), []).append(i)
    for width, members in by_width.items():
        rows = shapes.rows(width)
        for start in range(0, len(members), rows):
            some = members[start : start + rows]
            batch = np.full((rows, width), specials.pad, np.int32)
            for row, i in enumerate(some):
                tokens = [*lines[i][: width - 1], specials.eos]
                batch[row, : len(tokens)] = tokens
            yield some, batch


def _collect(
    members: list[int],
    hypotheses: Hypotheses,
    lines: list[Sequence[int]],
    answers: list[Found],
    shapes: Shapes,
) -> None:
    """Waits for a batch and puts its answers where they belong."""
    tokens, lengths, log_probabilities, scores = map(np.asarray, hypotheses)
    for row, i in enumerate(members):
        found = [j for j in range(tokens.shape[1]) if lengths[row, j]]
        answers[i] = Found(
            tokens=[tokens[row, j, : lengths[row, j] - 1].tolist() for j in found],
            scores=scores[row, found].tolist(),
            log_probabilities=log_probabilities[row, found].tolist(),
            cut=max(0, len(lines[i]) + 1 - shapes.longest),
        )
