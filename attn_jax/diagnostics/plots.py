"""Pictures of attention weights."""

import io
import math
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attn_jax.data.files import write_atomically
from attn_jax.diagnostics import fonts

COLOURS = "cividis"  # even to the eye, and the same to colour-blind ones
CELL, LETTER, LINE, GAP, BAR = 0.16, 0.065, 0.18, 0.3, 0.9  # inches
READABLE = 0.115  # inches, of a line of a token
SMALLEST, LARGEST = 1.5, 30.0  # inches, of a picture
LONGEST, MOST = 18, 120  # characters of a token shown, and tokens of an axis


def heat_map(
    weights: ArrayLike, queries: Sequence[str], keys: Sequence[str], title: str = ""
) -> Figure:
    """A picture of one head's attention weights.

    Args:
      weights: `t s`, of real tokens only; colours go from 0 to 1.
      queries: the tokens of the rows, `t`.
      keys: the tokens of the columns, `s`.
      title: a heading.

    Returns:
      A figure of its own, in no global list; `save` writes it.

    Raises:
      ValueError: the shape does not fit the tokens, or a weight is not a number.

    >>> heat_map(np.eye(2), ["le", "chat"], ["the", "cat"]).axes[0].get_title()
    ''
    """
    return heat_maps(np.asarray(weights)[None], queries, keys, title, names=[""])


def heat_maps(
    weights: ArrayLike,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    names: Sequence[str] | None = None,
) -> Figure:
    """A grid of pictures of attention weights, one for each head, on one scale of colours.

    Tokens are written as they are, `$` included, with a font that has them where one is installed
    and "□" where none is; the picture then says so. (matplotlib keeps a list of the fonts in
    `matplotlib.get_cachedir()`: delete it after installing one.) Spaces other than the plain one
    are shown as "␣"; tokens are cut at eighteen characters; where there are more than 120, or no room,
    not every one is written.

    Args:
      weights: `h t s`, of real tokens only; colours go from 0 to 1.
      queries: the tokens of the rows, `t`.
      keys: the tokens of the columns, `s`.
      title: a heading.
      names: of the heads, `h`; "head 0" and so on by default.

    Returns:
      A figure of its own, in no global list; `save` writes it.

    Raises:
      ValueError: the shape does not fit the tokens, or a weight is not a number.

    >>> figure = heat_maps(np.full((4, 1, 2), 0.5), ["chat"], ["the", "cat"])
    >>> [axes.get_title() for axes in figure.axes[:4]]
    ['head 0', 'head 1', 'head 2', 'head 3']
    """
    heads = np.asarray(weights, dtype=np.float32)
    names = [f"head {head}" for head in range(len(heads))] if names is None else names
    if heads.shape != (len(names), len(queries), len(keys)) or not heads.size:
        raise ValueError(
            f"expected weights of {len(names)} heads, {len(queries)} queries and {len(keys)} keys,"
            f" at least one of each; their shape is {heads.shape}"
        )
    if not np.isfinite(heads).all():
        raise ValueError(f"expected finite weights; {(~np.isfinite(heads)).sum()} are not")
    rows, columns = _grid(len(names))
    families, lacking = fonts.families_for(map(fonts.visible, [title, *names, *queries, *keys]))
    query_labels, key_labels = (
        [_label(token, lacking) for token in side] for side in (queries, keys)
    )

    beside, above = (max(map(len, side)) * LETTER + GAP for side in (query_labels, key_labels))
    width = min(max(columns * (len(keys) * CELL + beside), SMALLEST), LARGEST)
    height = min(max(rows * (len(queries) * CELL + above), SMALLEST), LARGEST)
    lines = textwrap.wrap(_spell(title, lacking), max(20, int((width + BAR) / LETTER / 1.4)))
    figure = Figure((width + BAR, height + GAP + LINE * len(lines)), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.remove()
    shown = list(grid.flat[: len(names)])
    room = [
        max(1, int((side / n - other) / READABLE))
        for side, n, other in ((height, rows, above), (width, columns, beside))
    ]
    for axes, name, head in zip(shown, names, heads):
        picture = axes.imshow(head, COLOURS, vmin=0, vmax=1, interpolation="nearest")
        _write(axes.set_title(_label(name, lacking), fontsize=8), families)
        _write_tokens(axes, query_labels, key_labels, families, room)
    bar = figure.colorbar(
        picture, ax=shown, fraction=0.15 / width, shrink=min(1, 3 / height), aspect=18, pad=0.01
    )
    bar.set_label("attention weight", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    if title:
        _write(figure.suptitle("\n".join(lines), fontsize=10), families)
    if lacking:
        figure.supxlabel(
            f"{fonts.MISSING}: no installed font has this character", fontsize=7, color="0.4"
        )
    return figure


def save(figure: Figure, path: str | os.PathLike, dpi: int = 150) -> Path:
    """Writes a figure, whole or not at all, in the format that the path's suffix names.

    Raises:
      ValueError: matplotlib cannot write that format.
    """
    path = Path(path)
    kinds = figure.canvas.get_supported_filetypes()
    kind = path.suffix.removeprefix(".").lower()
    if kind not in kinds:
        raise ValueError(
            f"cannot write a picture as {path.name}: the suffixes are {', '.join(kinds)}"
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi)
    return write_atomically(path, buffer.getvalue())


def _grid(maps: int) -> tuple[int, int]:
    """Rows and columns: nearly square, and full where that can be."""
    side = math.ceil(math.sqrt(maps))
    columns = next((n for n in range(side, 2 * side) if maps % n == 0), side)
    return math.ceil(maps / columns), columns


def _spell(text: str, lacking: set[str]) -> str:
    return "".join(fonts.MISSING if c in lacking else c for c in fonts.visible(text))


def _label(token: str, lacking: set[str]) -> str:
    spelt = _spell(token, lacking)
    return spelt if len(spelt) <= LONGEST else spelt[: LONGEST - 1] + "…"


def _write(text, families: list[str]) -> None:
    text.set(fontfamily=families, parse_math=False)


def _write_tokens(
    axes: Axes, queries: list[str], keys: list[str], families: list[str], room: list[int]
) -> None:
    """Room: for how many queries, and how many keys."""
    axes.xaxis.tick_top()
    for axis, tokens, places in ((axes.yaxis, queries, room[0]), (axes.xaxis, keys, room[1])):
        every = math.ceil(len(tokens) / min(MOST, places))
        axis.set_ticks(range(0, len(tokens), every), tokens[::every], fontsize=7)
        for text in axis.get_ticklabels():
            _write(text, families)
    axes.tick_params(length=0, pad=2)
    axes.tick_params(axis="x", labelrotation=90)
