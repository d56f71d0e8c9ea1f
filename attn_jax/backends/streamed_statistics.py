"""Statistics of the weights, a tile at a time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.backends.problem import Problem
from attn_jax.backends.streaming import row_maxima, row_sums, softmax_rows, weighted_rows
from attn_jax.backends.tile_kernel import block, cut_up, from_blocks
from attn_jax.backends.tile_list import TileList, tile_at
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.value import Array


def streamed_statistics(problem: Problem, tiles: TileList) -> tuple[Array, ...]:
    """Entropy, highest score, largest weight, weight on self and distance, each `*b h t`.

    Three passes: the normaliser of each row, its highest score, and the sums over its weights.
    """
    normalizer, batch = problem.rule.normalizer, len(problem.axes.batch)
    kernel, operands = cut_up(problem, tiles)
    groups, keys = problem.groups, tiles.keys
    no_values = jnp.zeros((len(keys), *problem.axes.batch, groups, keys.size, 0), jnp.float32)
    operands = operands._replace(v=no_values)

    if isinstance(normalizer, softmax):
        y, lse = softmax_rows(kernel, operands)
        _, lse = normalizer.with_sink(jnp.swapaxes(y, -2, -3), lse)
        rows = jnp.where(lse == -jnp.inf, 0, lse)
    else:
        _, rows = weighted_rows(kernel, operands, normalizer.mass)

    def weights(scores: Array, row: Array) -> Array:
        if isinstance(normalizer, softmax):
            return jnp.exp(scores - row[..., None])
        return normalizer.normalise(normalizer.mass(scores), row[..., None])

    highest = row_maxima(kernel, operands)
    near = jnp.where(highest == -jnp.inf, jnp.inf, highest - 1e-5 * jnp.abs(highest))

    def tile(masked: bool, i: Array, j: Array, q: Any, k: Any, v: Array) -> dict[str, Array]:
        scores = kernel.scores[masked](operands.captured, i, j, q, k)
        w = weights(scores, block(rows, i))
        some = w > 0
        at = tile_at(problem, tiles, i, j)
        best = scores >= block(near, i)[..., None]
        parts = {
            "entropy": jnp.where(some, -w * jnp.log(jnp.where(some, w, 1)), 0),
            "self": jnp.where(at.i == at.j, w, 0),
            "distance": w * jnp.abs(at.i - at.j),
            "best": jnp.where(best, scores, 0),
            "count": best.astype(scores.dtype),
        }
        return jax.tree.map(lambda x: x.sum(-1), parts)

    sums = row_sums(operands, tile)
    # The value is the maximum; its derivative, that of the scores that reach it.
    best = sums["best"] / jnp.where(sums["count"] > 0, sums["count"], 1)
    max_score = highest + (best - jax.lax.stop_gradient(best))
    max_weight = weights(max_score[..., None], rows)[..., 0]
    stats = sums["entropy"], max_score, max_weight, sums["self"], sums["distance"]
    return tuple(
        jnp.swapaxes(from_blocks(x, tiles.queries, batch), -1, -2) for x in stats
    )  # fmt: skip
