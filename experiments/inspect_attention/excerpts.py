"""What of a sequence a page has room for: its beginning, or an image in larger squares."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.diagnostics.report import Cells

LONGEST = 128  # tokens of text that are shown one by one
ROOM = 6_000_000  # weights of a page


class Excerpt(NamedTuple):
    """What is shown of a sequence.

    Args:
      tokens: of the page.
      groups: of each token of the sequence, which of the page's it is part of, `t`; None where they
        are the same.
      cells: of the page's tokens, where on the image they are.
      note: what was done, in a sentence; nothing where all is shown.
    """

    tokens: Sequence[str]
    groups: np.ndarray | None = None
    cells: Cells | None = None
    note: str = ""


def beginning(tokens: Sequence[str], most: int = LONGEST) -> Excerpt:
    """The first tokens, and all others as one.

    >>> beginning(["a", "b", "c", "d"], 2)[:2]
    (['a', 'b', '… 2 more'], array([0, 1, 2, 2]))
    """
    rest = len(tokens) - most
    if rest <= 1:
        return Excerpt(tokens)
    note = (
        f"Of {len(tokens)} tokens the first {most} are shown; the others are one row, the mean of"
        " theirs, and one column, their sum. Numbers and verdicts are of all."
    )
    groups = np.minimum(np.arange(len(tokens)), most)
    return Excerpt([*tokens[:most], f"… {rest} more"], groups, None, note)


def squares(first: Sequence[str], grid: tuple[int, int], heads: int, read: int = 0) -> Excerpt:
    """The cells of an image, those of a square as one where there is no room for each.

    Args:
      first: tokens that stand before the image, as a class token.
      grid: rows and columns of cells.
      heads: of all layers.
      read: how many cells are read; all where 0.

    >>> squares(["class"], (4, 4), 1).tokens[:3]
    ['class', '0, 0', '0, 1']
    """
    rows, columns = grid
    cell = np.arange(read or rows * columns)
    row, column = np.divmod(cell, columns)
    fitting = [n for n in range(1, min(grid) + 1) if rows % n == columns % n == 0]
    room = [n for n in fitting if heads * (len(first) + rows * columns // n**2) ** 2 <= ROOM]
    side = room[0] if room else fitting[-1]
    across = columns // side
    square = row // side * across + column // side
    shown = Cells(rows // side, across, [*[-1] * len(first), *dict.fromkeys(square.tolist())])
    tokens = [*first, *(f"{n // across}, {n % across}" for n in shown.of[len(first) :])]
    if side == 1:
        return Excerpt(tokens, None, shown)
    note = (
        f"Cells are shown in squares of {side} × {side}: a weight is what lies on all of a square,"
        " mean over the queries of another. Numbers and verdicts are of single cells."
    )
    groups = np.concatenate([np.arange(len(first)), len(first) + square])
    return Excerpt(tokens, groups, shown, note)
