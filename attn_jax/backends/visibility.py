"""Which queries and keys take part in no visible pair, and what stands in for them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.backends.problem import Problem
from attn_jax.backends.tile_list import ORIGIN, TileList, tile_at
from attn_jax.functional.value import Array


def visibility(allowed: Array, groups: int) -> tuple[Array, Array]:
    """Which queries see any key, `… t h|1`, and which keys any query of their group sees, `… s g|1`."""
    allowed = allowed if allowed.ndim > 2 else allowed[None]
    seeing, seen = allowed.any(-1), by_group(allowed.any(-2), groups)
    return jnp.swapaxes(seeing, -1, -2), jnp.swapaxes(seen, -1, -2)


def hide(problem: Problem, seeing: Array, seen: Array) -> tuple[Array, Any, Any]:
    """Queries, keys and values, with a number in place of those that take part in nothing.

    Values become 0. Queries and keys become 1 and ½: a user's score or feature map has its singular
    points, if it has any, at 0 and where a query equals a key, and there not even a cotangent of 0
    gives a gradient of 0.
    """
    return _only(seeing, problem.q, 1), _only(seen, problem.k, 0.5), _only(seen, problem.v, 0)


def _only(visible: Array, x: Any, otherwise: float) -> Any:
    """Arrays `*b n heads …` where visible, `… n heads|1`, and a number elsewhere."""
    if x is None:
        return None
    heads_end = x.ndim - 1

    def fill(leaf: Array) -> Array:
        where = visible.reshape(visible.shape + (1,) * (leaf.ndim - heads_end))
        return jnp.where(where, leaf, jnp.asarray(otherwise, leaf.dtype))

    return jax.tree.map(fill, x)


def streamed_visibility(problem: Problem, tiles: TileList) -> tuple[Array, Array]:
    """Which queries see any key, `… t h|1`, and which keys any query of their group, `… s g|1`.

    A block that a full tile touches is known to take part; only what is left is looked at, in the
    partial tiles, which costs booleans and no products.
    """
    t, s = problem.axes.t, problem.axes.s

    def allowed(i: Any, j: Any) -> Array:
        tile = tile_at(problem, tiles, i, j)
        real = (tile.queries.array() < t)[:, None] & (tile.keys.array() < s)
        return problem.rule.mask.allowed(tile) & real

    like = jax.eval_shape(allowed, *ORIGIN)
    *heads, _, _ = like.shape
    known = [np.bincount(blocks, minlength=n) > 0 for blocks, n in _touched(tiles)]
    seeing, seen = (
        jnp.asarray(k).reshape(-1, *[1] * len(heads), 1)
        | jax.lax.full_like(like, False, shape=(len(k), *heads, cut.size))
        for k, cut in zip(known, (tiles.queries, tiles.keys), strict=True)
    )
    queries, keys = tiles.partial.queries, tiles.partial.keys
    open_ = ~(known[0][queries] & known[1][keys])
    if open_.any():

        def look(found: tuple[Array, Array], pair: Any) -> tuple[Any, None]:
            (i, j), (seeing, seen) = pair, found
            pairs = allowed(i, j)
            return (seeing.at[i].max(pairs.any(-1)), seen.at[j].max(pairs.any(-2))), None

        found = jax.lax.scan(look, (seeing, seen), (queries[open_], keys[open_]))[0]
        seeing, seen = found
    seeing, seen = _unblocked(seeing, t), _unblocked(seen, s)
    return jnp.swapaxes(seeing, -1, -2), jnp.swapaxes(by_group(seen, problem.groups), -1, -2)


def _touched(tiles: TileList) -> tuple[tuple[Any, int], tuple[Any, int]]:
    full = tiles.full
    return (full.queries, len(tiles.queries)), (full.keys, len(tiles.keys))


def by_group(seen: Array, groups: int) -> Array:
    """What any query head of a group sees, `… g|1 s`, of what each sees, `… h|1 s`."""
    if seen.shape[-2] == 1:
        return seen
    return seen.reshape(*seen.shape[:-2], groups, -1, seen.shape[-1]).any(-2)


def _unblocked(x: Array, total: int) -> Array:
    """Blocks `n … size` side by side: `… h|1 total`."""
    x = jnp.moveaxis(x, 0, -2)
    x = x.reshape(*x.shape[:-2], -1)[..., :total]
    return x if x.ndim > 1 else x[None]
