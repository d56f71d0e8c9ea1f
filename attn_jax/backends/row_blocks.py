"""The weights of some queries at a time: all that can be asked of whole rows, at linear memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.backends.dense import dense
from attn_jax.backends.problem import describe
from attn_jax.backends.tile_kernel import block, cut_up
from attn_jax.backends.tile_list import tile_list
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.functional.tiles import Positions
from attn_jax.functional.value import Array

MOST_WEIGHTS = 2**22  # at a time


def map_rows(
    f: Callable[[Array, Array], Any],
    q: Array,
    k: Array | PreparedKeys,
    *,
    rule: Rule = Rule(),  # noqa: B008 (a rule is an immutable value)
    positions: Positions | str | None = None,
    most: int = MOST_WEIGHTS,
) -> Any:
    """What a function says of the weights, for one block of queries after another.

    Any rule and any normaliser; the memory is that of `most` weights, or of those of one query.

    Args:
      f: of weights `*b h n s` and the indices of their queries, `n`, to a pytree of arrays. The last
        block may overhang: indices from t on have weights of 0.
      q, k, rule, positions: as of ``attend``.
      most: weights in memory at a time.

    Returns:
      What f returns, with the blocks as first axis of each array.

    >>> x = jnp.ones((5, 1, 2))
    >>> map_rows(lambda w, i: w.sum((-3, -1)), x, x, most=10).tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    """
    problem = describe(q, k, None, rule, positions)
    axes = problem.axes
    size = max(1, min(axes.t, most // max(1, math.prod(axes.batch) * axes.h * axes.s)))
    if size == axes.t or not axes.s:
        said = f(dense().weights(problem), jnp.arange(axes.t))
        return jax.tree.map(lambda x: x[None], said)
    tiles = tile_list(problem, (size, axes.s))
    kernel, operands = cut_up(problem, tiles)

    def one(n: Array) -> Any:
        scores = kernel.scores[True](
            operands.captured, n, jnp.int32(0), block(operands.q, n), block(operands.k, 0)
        )
        i = n * size + jnp.arange(size)
        weights = problem.rule.normalizer.weights(scores)
        return f(jnp.where((i < axes.t)[:, None], weights, 0), i)

    return jax.lax.map(one, jnp.arange(len(tiles.queries), dtype=jnp.int32))
