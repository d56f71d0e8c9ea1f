"""A picture of attention weights as lines from tokens to tokens."""

import itertools
from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from attn_jax.diagnostics import fonts

LINE, WIDTH = 0.2, 4.2  # inches
INK = "#0072B2"
LONGEST = 18  # characters of a token
FAINT = 0.01  # of the largest weight; below, there is no line


def token_lines(
    weights: ArrayLike,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    *,
    query: int | None = None,
) -> Figure:
    """Lines from each token on the left to what it looks at on the right, darker for more weight.

    Args:
      weights: `t s`, of one head and real tokens only.
      queries: the tokens on the left, `t`.
      keys: the tokens on the right, `s`.
      title: a heading.
      query: the only token whose lines are drawn; None for all.

    Returns:
      A figure of its own, in no global list; `plots.save` writes it.

    Raises:
      ValueError: the shape does not fit the tokens, or a weight is negative or not a number.

    >>> figure = token_lines(np.eye(2), ["le", "chat"], ["the", "cat"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['le', 'chat', 'the', 'cat']
    """
    weights = np.asarray(weights, np.float32)
    if weights.shape != (len(queries), len(keys)) or not weights.size:
        raise ValueError(
            f"expected weights of {len(queries)} queries and {len(keys)} keys, at least one of each; "
            f"their shape is {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("expected weights from 0 up")
    families, lacking = fonts.families_for(map(fonts.visible, [title, *queries, *keys]))
    rows = max(len(queries), len(keys))
    figure = Figure((WIDTH, LINE * rows + (0.5 if title else 0.2)), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-0.6, 1.6), ylim=(rows - 0.5, -0.5))
    axes.axis("off")
    shown = range(len(queries)) if query is None else [query]
    share = weights / (weights.max() or 1)
    pairs = [p for p in itertools.product(shown, range(len(keys))) if share[p] > FAINT]
    ends = [[(0, i), (1, j)] for i, j in pairs]
    alphas = [float(share[p]) for p in pairs]
    axes.add_collection(
        LineCollection(ends, colors=INK, alpha=alphas, linewidths=[0.5 + 2 * a for a in alphas])
    )
    for side, x, align in ((queries, -0.03, "right"), (keys, 1.03, "left")):
        for i, token in enumerate(side):
            chosen = side is queries and i == query
            text = axes.text(x, i, _label(token, lacking), ha=align, va="center", fontsize=8)
            text.set(fontfamily=families, parse_math=False, weight="bold" if chosen else "normal")
    if title:
        heading = figure.suptitle(fonts.visible(title), fontsize=10)
        heading.set(fontfamily=families, parse_math=False)
    return figure


def _label(token: str, lacking: set[str]) -> str:
    spelt = "".join(fonts.MISSING if c in lacking else c for c in fonts.visible(token))
    return spelt if len(spelt) <= LONGEST else spelt[: LONGEST - 1] + "…"
