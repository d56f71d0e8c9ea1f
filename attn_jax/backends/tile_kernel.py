"""A problem cut into tiles: its arrays in blocks, and what is done on one tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attn_jax.backends.problem import Problem
from attn_jax.backends.tile_list import ORIGIN, Pairs, TileList, repeat_last, tile_at
from attn_jax.backends.visibility import hide, streamed_visibility
from attn_jax.functional.masks import everything
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.tiles import Cut
from attn_jax.functional.value import Array


class Operands(NamedTuple):
    """All arrays that the rows depend on; blocked arrays have the block number first.

    `captured` are the arrays that the tile functions close over: leaves of the rule, what users'
    functions capture, positions, random keys. Handed over one by one, not closed over, so that they
    are mapped and differentiated like any other.
    """

    q: Any  # pytree of n *b h t …
    k: Any  # pytree of n *b g s …
    v: Any  # n *b g s e, or None
    captured: Any
    full: Pairs
    partial: Pairs

    @property
    def rows(self) -> int:
        """The number of query blocks."""
        return jax.tree.leaves(self.q)[0].shape[0]


class Kernel(NamedTuple):
    """What is done on a tile; functions of the captured arrays, block numbers and blocks.

    `scores` (unmasked, masked): ``(captured, i, j, q, k) -> *b h t s``, −inf where hidden.
    `drop`: ``(captured, i, j, weights) -> weights``.
    """

    scores: tuple[Callable[..., Array], Callable[..., Array]]
    drop: Callable[..., Array]


def hoist(function: Callable[..., Any], *examples: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The function with all that it closes over made an argument, and those arrays.

    Unlike ``jax.closure_convert`` integers and keys are handed over as well: they may be mapped.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(*examples)

    def pure(captured: list[Any], *arguments: Any) -> Any:
        leaves = jax.tree.leaves(arguments)
        out = jax.core.eval_jaxpr(closed.jaxpr, captured, *leaves)
        return jax.tree.unflatten(jax.tree.structure(result), out)

    return pure, [jnp.asarray(x) for x in closed.consts]


def into_blocks(x: Any, cut: Cut, batch: int) -> Any:
    """Arrays `*b n heads …` cut along n: `blocks *b heads size …`, the last row repeated to fill."""

    def one(leaf: Array) -> Array:
        leaf = repeat_last(leaf, len(cut) * cut.size - cut.total, batch)
        leaf = leaf.reshape(*leaf.shape[:batch], len(cut), cut.size, *leaf.shape[batch + 1 :])
        return jnp.moveaxis(leaf, batch, 0).swapaxes(batch + 1, batch + 2)

    return jax.tree.map(one, x)


def from_blocks(x: Array, cut: Cut, batch: int) -> Array:
    """The inverse of :func:`into_blocks`."""
    x = jnp.moveaxis(x.swapaxes(batch + 1, batch + 2), 0, batch)
    x = x.reshape(*x.shape[:batch], len(cut) * cut.size, *x.shape[batch + 2 :])
    return jax.lax.slice_in_dim(x, 0, cut.total, axis=batch)


def block(x: Any, n: Any) -> Any:
    """Block number n of each array."""
    return jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, n, 0, keepdims=False), x)


def cut_up(problem: Problem, tiles: TileList) -> tuple[Kernel, Operands]:
    """The blocks of a problem and the functions of its tiles, with all they capture made operands."""
    rule, axes = problem.rule, problem.axes
    batch = len(axes.batch)
    q, k, v = problem.q, problem.k, problem.v
    if not isinstance(rule.mask, everything):
        q, k, v = hide(problem, *streamed_visibility(problem, tiles))
    q = into_blocks(rule.score.prepare_q(q), tiles.queries, batch)
    k = k.keys if isinstance(k, PreparedKeys) else rule.score.prepare_k(k)
    k = into_blocks(k, tiles.keys, batch)
    v = None if v is None else into_blocks(v, tiles.keys, batch)
    shape = (*axes.batch, axes.h, tiles.queries.size, tiles.keys.size)

    def scores(masked: bool) -> Callable[..., Array]:
        def on_tile(i: Array, j: Array, q: Any, k: Any) -> Array:
            q, k = (jax.tree.map(lambda x: x.swapaxes(batch, batch + 1), x) for x in (q, k))
            tile = tile_at(problem, tiles, i, j)
            s = rule.logits(q, k, tile)
            if s.shape != shape:
                raise ValueError(
                    f"score, bias and transform must give *b h t s = {shape} on a tile, got {s.shape}"
                )
            if not masked:
                return s
            allowed = rule.mask.allowed(tile)
            if axes.s % tiles.keys.size:
                allowed = allowed & (tile.keys.array() < axes.s)
            return jnp.where(allowed, s, -jnp.inf)

        return on_tile

    def drop(i: Array, j: Array, weights: Array) -> Array:
        if problem.dropout is None:
            return weights
        tile = tile_at(problem, tiles, i, j)
        indices = jnp.arange(axes.h), tile.queries.array(), tile.keys.array()
        return problem.dropout.on_weights(weights, *indices)

    blocks = jax.eval_shape(lambda x: block(x, 0), (q, k))
    unmasked, captured0 = hoist(scores(False), *ORIGIN, *blocks)
    masked, captured1 = hoist(scores(True), *ORIGIN, *blocks)
    weights = jax.eval_shape(scores(False), *ORIGIN, *blocks)
    dropping, captured2 = hoist(drop, *ORIGIN, weights)
    kernel = Kernel(
        (lambda c, *x: unmasked(c[0], *x), lambda c, *x: masked(c[1], *x)),
        lambda c, *x: dropping(c[2], *x),
    )
    captured = captured0, captured1, captured2
    return kernel, Operands(q, k, v, captured, tiles.full, tiles.partial)
