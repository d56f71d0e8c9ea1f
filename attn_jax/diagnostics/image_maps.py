"""Pictures of images in rows, and of what weighs their places."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike
from matplotlib.figure import Figure

from attn_jax.diagnostics.plots import COLOURS

SIDE, LETTER, TOP = 0.72, 0.085, 0.5  # inches: of a picture, of a letter, of a heading


def image_maps(
    images: Mapping[str, ArrayLike],
    weights: Mapping[str, ArrayLike] | None = None,
    title: str = "",
    *,
    names: Sequence[str] = (),
) -> Figure:
    """Rows of images, and below them rows of what weighs their places, in colours.

    Args:
      images: `n y x`, or `n y x c` of one channel or three, in [0, 1], by name.
      weights: `n y x` each, by name, of any resolution; the colours of a row go from its least to its
        largest.
      title: a heading.
      names: of the columns, `n`.

    Returns:
      A figure of its own, in no global list; `plots.save` writes it.

    Raises:
      ValueError: no images, or rows and names that differ in length.

    >>> figure = image_maps({"digit": np.zeros((3, 8, 8))}, {"gate": np.ones((3, 4, 4))})
    >>> len(figure.axes)
    6
    """
    rows = [(name, np.asarray(row, np.float32), False) for name, row in images.items()]
    rows += [(name, np.asarray(row, np.float32), True) for name, row in (weights or {}).items()]
    lengths = {len(row) for _, row, _ in rows} | ({len(names)} if names else set())
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"expected rows and names of one length, at least 1; got {lengths or 'none'}"
        )
    (columns,) = lengths
    left = LETTER * max(len(line) for name, _, _ in rows for line in name.split("\n"))
    figure = Figure((left + (columns + 0.5) * SIDE, TOP + len(rows) * SIDE), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for line, (name, row, coloured) in zip(grid, rows):
        low, high = (row.min(), row.max()) if coloured else (0, 1)
        for axes, picture in zip(line, row):
            single = picture.ndim == 2 or picture.shape[-1] == 1
            axes.imshow(
                picture.reshape(picture.shape[:2]) if single else picture,
                COLOURS if coloured else "gray_r",
                vmin=low,
                vmax=high,
                interpolation="nearest",
            )
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_color("0.8")
        line[0].set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center", parse_math=False)
    for axes, name in zip(grid[0], names):
        axes.set_title(name, fontsize=8, parse_math=False)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    return figure
