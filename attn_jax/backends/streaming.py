"""Attention a tile at a time: sums over the keys kept per query, never a whole score matrix.

How derivatives stay exact at linear memory. Every sum over keys is a scan whose body is one tile under
``jax.checkpoint``: its tangent is a scan of the same kind, linear in the tangents, and reverse mode is
the transpose of that, so each order of derivative is again such a scan. A softmax needs its
denominator first; it is found by the running maximum and sum of the online algorithm, whose value is
returned through ``jax.custom_jvp``. With the log-sum-exp ℓ held fixed, :math:`y = \\sum_j e^{s_j-ℓ}v_j`
and :math:`1 = \\sum_j e^{s_j-ℓ}` are plain sums; their tangents (ẏ, Ż) give :math:`\\dot ℓ = Ż` and
the tangent of y, :math:`ẏ - Ż y`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.lax import full_like  # keeps, inside jax.shard_map, what devices the original differs on

from attn_jax.backends.tile_kernel import Kernel, Operands, block
from attn_jax.backends.tile_list import ORIGIN, Pairs
from attn_jax.functional.value import Array


def row_sums(operands: Operands, tile: Callable[..., Any]) -> Any:
    """The sum over keys of ``tile(masked, i, j, q, k, v)``, a pytree of `*b h t …`, per query block.

    Differentiable in all that `tile` reads, to any order, at the memory of one tile.
    """

    def on(masked: bool) -> Callable[..., Any]:
        def contribution(i: Array, j: Array, live: Array | None, operands: Operands) -> Any:
            blocks = block(operands.q, i), block(operands.k, j), block(operands.v, j)

            def compute(blocks: Any) -> Any:
                return tile(masked, i, j, *blocks)

            if live is None:
                return compute(blocks)
            zeros = jax.tree.map(jnp.zeros_like, like)
            return jax.lax.cond(live, compute, lambda _: zeros, blocks)

        return jax.checkpoint(contribution, prevent_cse=False)

    first = jax.tree.map(lambda a: a[0], (operands.q, operands.k, operands.v))
    like = jax.eval_shape(lambda blocks: tile(True, *ORIGIN, *blocks), first)
    sums = jax.tree.map(lambda x: full_like(x, 0, shape=(operands.rows, *x.shape)), like)
    for pairs, contribution in ((operands.full, on(False)), (operands.partial, on(True))):

        def add(sums: Any, pair: Pairs, contribution: Any = contribution) -> tuple[Any, None]:
            more = contribution(*pair, operands)
            return jax.tree.map(
                lambda a, x: a.at[pair.queries].add(x, mode="promise_in_bounds"), sums, more
            ), None

        if pairs.size:
            sums, _ = jax.lax.scan(add, sums, pairs)
    return sums


def softmax_rows(kernel: Kernel, operands: Operands) -> tuple[Array, Array]:
    """Averages of the values `n *b h t e` under a softmax, and log-sum-exps `n *b h t`."""

    def sums(operands: Operands, shift: Array) -> tuple[Array, Array]:
        return weighted_rows(kernel, operands, jnp.exp, shift)

    return softmax_by_sums(lambda operands: _online(kernel, operands), sums)(operands)


def softmax_by_sums(
    online: Callable[[Any], tuple[Array, Array]],
    sums: Callable[[Any, Array], tuple[Array, Array]],
) -> Callable[[Any], tuple[Array, Array]]:
    """``online(operands)``, averages `… e` and log-sum-exps `…`, with the derivative of the sums.

    ``sums(operands, lse)``: Σ w v and Σ w for weights w = exp(score − lse), whose derivative in the
    operands is known.
    """
    attention = jax.custom_jvp(online)

    def derivative(primals: Any, tangents: Any) -> Any:
        leaves, structure = jax.tree.flatten(primals[0])
        dots = jax.tree.leaves(tangents[0])
        moving = [n for n, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]
        y, lse = attention(*primals)
        shift = jnp.where(lse == -jnp.inf, 0, lse)

        def of_moving(some: list[Any]) -> tuple[Array, Array]:
            changed = list(leaves)
            for n, leaf in zip(moving, some, strict=True):
                changed[n] = leaf
            return sums(jax.tree.unflatten(structure, changed), shift)

        some = [leaves[n] for n in moving]
        _, (dy, dz) = jax.jvp(of_moving, (some,), ([dots[n] for n in moving],))
        return (y, lse), (dy - dz[..., None] * y, dz)

    attention.defjvp(derivative, symbolic_zeros=True)
    return attention


def weighted_rows(
    kernel: Kernel, operands: Operands, mass: Callable[[Array], Array], shift: Array | None = None
) -> tuple[Array, Array]:
    """Σ w v, `n *b h t e`, and Σ w, `n *b h t`, for weights w = mass(score − shift)."""

    def tile(masked: bool, i: Array, j: Array, q: Any, k: Any, v: Array) -> tuple[Array, Array]:
        scores = kernel.scores[masked](operands.captured, i, j, q, k)
        if shift is not None:
            scores = scores - block(shift, i)[..., None]
        weights = mass(scores)
        return weigh(kernel.drop(operands.captured, i, j, weights), v), weights.sum(-1)

    return row_sums(operands, tile)


def row_maxima(kernel: Kernel, operands: Operands) -> Array:
    """The highest score of each query, `n *b h t`; a constant for differentiation."""

    def tile(masked: bool, pair: Pairs, highest: Array) -> Array:
        i, j, _ = pair
        q, k = block(operands.q, i), block(operands.k, j)
        scores = kernel.scores[masked](operands.captured, i, j, q, k)
        return jnp.maximum(highest, scores.max(-1))

    operands = jax.lax.stop_gradient(operands)
    scores = _scores_like(kernel, operands)
    highest = full_like(scores, -jnp.inf, shape=(operands.rows, *scores.shape[:-1]))
    return _update_rows(operands, tile, highest)


def _online(kernel: Kernel, operands: Operands) -> tuple[Array, Array]:
    """One pass with a running maximum; not differentiated."""

    def tile(masked: bool, pair: Pairs, row: Any) -> Any:
        i, j, _ = pair
        highest, total, sums = row
        k, v = block(operands.k, j), block(operands.v, j)
        scores = kernel.scores[masked](operands.captured, i, j, block(operands.q, i), k)
        higher = jnp.maximum(highest, scores.max(-1))
        shift = jnp.where(higher == -jnp.inf, 0, higher)
        weights = jnp.exp(scores - shift[..., None])
        fade = jnp.exp(highest - shift)
        total = total * fade + _sum_of_keys(weights)
        dropped = kernel.drop(operands.captured, i, j, weights)
        return higher, total, sums * fade[..., None] + weigh(dropped, v)

    scores = _scores_like(kernel, operands)
    weighed = jax.eval_shape(
        lambda s, o: weigh(kernel.drop(o.captured, *ORIGIN, s), block(o.v, 0)), scores, operands
    )
    shape = (operands.rows, *scores.shape[:-1])
    state = (
        full_like(scores, -jnp.inf, shape=shape),
        full_like(scores, 0, shape=shape),
        full_like(weighed, 0, scores.dtype, (*shape, weighed.shape[-1])),
    )
    highest, total, sums = _update_rows(operands, tile, state)
    seen = total > 0
    total = jnp.where(seen, total, 1)
    lse = jnp.where(seen, jnp.log(total) + highest, -jnp.inf)
    return sums / total[..., None], lse


def _update_rows(operands: Operands, tile: Callable[..., Any], state: Any) -> Any:
    """The state of each query block after ``tile(masked, pair, row)`` of each of its tiles."""
    for masked, pairs in enumerate((operands.full, operands.partial)):

        def update(state: Any, pair: Pairs, masked: bool = bool(masked)) -> tuple[Any, None]:
            row = block(state, pair.queries)
            if pair.live is None:
                row = tile(masked, pair, row)
            else:
                row = jax.lax.cond(pair.live, lambda r: tile(masked, pair, r), lambda r: r, row)
            return jax.tree.map(
                lambda a, x: a.at[pair.queries].set(x, mode="promise_in_bounds"), state, row
            ), None

        if pairs.size:
            state, _ = jax.lax.scan(update, state, pairs)
    return state


def _scores_like(kernel: Kernel, operands: Operands) -> Any:
    """Shape and dtype of the scores of a tile."""
    return jax.eval_shape(
        lambda o: kernel.scores[True](o.captured, *ORIGIN, block(o.q, 0), block(o.k, 0)), operands
    )


def weigh(weights: Array, v: Array) -> Array:
    """Weights `*b h t s` times values `*b g s e`: `*b h t e`, in the precision of the weights."""
    *batch, h, t, s = weights.shape
    g, e = v.shape[-3], v.shape[-1]
    accumulate = jnp.promote_types(weights.dtype, v.dtype)
    if jnp.finfo(v.dtype).bits < 32:
        weights = weights.astype(v.dtype)
    weights = weights.reshape(*batch, g, h // g * t, s)
    y = jnp.einsum("...ts,...se->...te", weights, v, preferred_element_type=accumulate)
    return y.reshape(*batch, h, t, e)


def _sum_of_keys(weights: Array) -> Array:
    """The sum over the last axis; on CPU as a product, or XLA would compute the exponentials twice."""
    ones = jnp.ones((weights.shape[-1], 1), weights.dtype)
    return jax.lax.platform_dependent(
        weights,
        cpu=lambda w: jnp.matmul(w, ones, precision="highest")[..., 0],
        default=lambda w: w.sum(-1),
    )
