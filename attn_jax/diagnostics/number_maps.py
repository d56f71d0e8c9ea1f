"""Pictures of attention weights where queries and keys are numbers: kernel regression's bands."""

import math
from collections.abc import Mapping

import numpy as np
from jax.typing import ArrayLike
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from attn_jax.diagnostics.plots import COLOURS


def number_maps(
    weights: Mapping[str, ArrayLike],
    queries: ArrayLike,
    keys: ArrayLike,
    title: str = "",
    *,
    query_name: str = "query",
    key_name: str = "key",
    bar_name: str = "attention weight",
) -> Figure:
    """Attention weights between numbers, each cell where its query and key are; side by side.

    Args:
      weights: `t s` each, by name. One scale of colours for all, of the square root, from 0
        to the largest weight: wide bands are faint, and still to be seen beside narrow ones.
      queries: `t`, increasing.
      keys: `s`, not decreasing.
      title: a heading.
      query_name, key_name, bar_name: what the axes and the scale of colours are called.

    Returns:
      A figure of its own, in no global list; `plots.save` writes it.

    Raises:
      ValueError: no weights, weights that do not fit or are not numbers, or numbers out of order.

    >>> figure = number_maps({"near": np.eye(3)}, [0, 1, 2], [0, 1, 2])
    >>> figure.axes[0].get_title()
    'near'
    """
    maps = {name: np.asarray(w, np.float32) for name, w in weights.items()}
    queries, keys = np.asarray(queries, np.float64), np.asarray(keys, np.float64)
    shape = (queries.size, keys.size)
    if not maps or any(w.shape != shape or not np.isfinite(w).all() for w in maps.values()):
        given = ", ".join(f"{name} {w.shape}" for name, w in maps.items()) or "none"
        raise ValueError(f"expected finite weights of shape {shape}; got {given}")
    largest = max(float(w.max()) for w in maps.values()) or 1.0
    figure = Figure((3.0 * len(maps) + 0.8, 3.2), layout="constrained")
    grid = figure.subplots(1, len(maps), squeeze=False, sharex=True, sharey=True)[0]
    edges = _edges("keys", keys), _edges("queries", queries)
    for axes, (name, w) in zip(grid, maps.items()):
        picture = axes.pcolormesh(
            *edges, w, cmap=COLOURS, norm=PowerNorm(0.5, 0, largest), rasterized=True
        )
        axes.set_title(name, fontsize=8, parse_math=False)
        axes.set_xlabel(key_name, fontsize=8)
        axes.tick_params(labelsize=7)
    grid[0].invert_yaxis()
    grid[0].set_ylabel(query_name, fontsize=8)
    bar = figure.colorbar(picture, ax=list(grid), aspect=24, pad=0.01)
    bar.set_label(bar_name, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    return figure


def _edges(name: str, centres: np.ndarray) -> np.ndarray:
    """Cells meet half way between their numbers; the first and the last are symmetric."""
    steps = np.diff(centres)
    if centres.ndim != 1 or not math.isfinite(centres.sum()) or (steps < 0).any():
        raise ValueError(f"expected finite {name} that do not decrease")
    if not steps.size:
        return centres[0] + np.array([-0.5, 0.5])
    middles = centres[:-1] + steps / 2
    return np.concatenate([[centres[0] - steps[0] / 2], middles, [centres[-1] + steps[-1] / 2]])
