"""A picture of a number of every head: layers × heads."""

from collections.abc import Collection, Mapping

import numpy as np
from jax.typing import ArrayLike
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attn_jax.diagnostics.plots import COLOURS

CELL = 0.42  # inches
MARK = "#D55E00"


def head_map(
    values: Mapping[str, ArrayLike],
    title: str = "",
    *,
    name: str = "",
    marked: Collection[tuple[str, int]] = (),
) -> Figure:
    """A number of each head, as colours and figures: a row for each layer, a column for each head.

    Args:
      values: `h` each, by layer; layers may differ in their heads. What is not a number stays blank.
      title: a heading.
      name: of the numbers.
      marked: layers and heads to frame, as those that a verdict is about.

    Returns:
      A figure of its own, in no global list; `plots.save` writes it.

    Raises:
      ValueError: no layers, or values that are not a number for each head.

    >>> figure = head_map({"0": [0.5, 1.0], "1": [0.25, 0.125]}, marked=[("1", 0)])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0.5', '1', '0.25', '0.12']
    """
    rows = {layer: np.asarray(x, np.float64) for layer, x in values.items()}
    if not rows or any(x.ndim != 1 or not x.size for x in rows.values()):
        raise ValueError(
            f"expected numbers of heads, h, of at least one layer; got "
            f"{ {layer: x.shape for layer, x in rows.items()} }"
        )
    table = np.full((len(rows), max(map(len, rows.values()))), np.nan)
    for i, row in enumerate(rows.values()):
        table[i, : len(row)] = np.where(np.isfinite(row), row, np.nan)
    beside = 0.4 + 0.07 * max(map(len, rows))
    size = CELL * table.shape[1] + beside + 1.0, CELL * table.shape[0] + 0.7
    figure = Figure((max(size[0], 3.0), size[1]), layout="constrained")
    axes = figure.subplots()
    picture = axes.imshow(table, COLOURS, aspect="equal")
    for (i, head), value in np.ndenumerate(table):
        if np.isfinite(value):
            bright = float(picture.norm(value)) > 0.55  # type: ignore[arg-type]
            axes.text(
                head, i, f"{value:.2g}", ha="center", va="center", fontsize=7,
                color="black" if bright else "white",
            )  # fmt: skip
    layers = list(rows)
    for layer, head in marked:
        if layer in rows:
            axes.add_patch(
                Rectangle(
                    (head - 0.5, layers.index(layer) - 0.5), 1, 1, fill=False, ec=MARK, lw=2.5
                )
            )
    axes.set_xticks(range(table.shape[1]))
    axes.set_yticks(range(len(rows)), layers)
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    axes.tick_params(labelsize=7, length=0)
    axes.set_xlabel("head", fontsize=8)
    bar = figure.colorbar(picture, ax=axes, fraction=0.05, pad=0.02)
    bar.set_label(name, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    return figure
