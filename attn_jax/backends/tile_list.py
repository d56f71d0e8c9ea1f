"""Which tiles of the score matrix are visited, and which of them need masking."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.backends.problem import Problem
from attn_jax.functional.mask import Axes
from attn_jax.functional.tiles import Blocks, Cut, Positions, Range, Tile
from attn_jax.functional.value import Array

ORIGIN = np.int32(0), np.int32(0)  # the block numbers of the first tile


def default_tile(axes: Axes) -> tuple[int, int]:
    """Queries and keys in a tile, for the platform the program will run on.

    On CPU what counts is that the scores of a tile, of all heads and batch rows, stay in cache between
    the two products. On two idle cores, with 8 heads of 64 and n = 1024 and 4096, forward and backward
    together took least at 256 × 256 (causal) or the same at 128 and 256 (a window), and up to twice as
    long at 512. Beyond 32 heads and rows smaller tiles keep the scores within 8 MiB of float32. An
    accelerator has no such cache, and wants fewer, larger products.
    """
    if jax.default_backend() != "cpu":
        return 512, 512
    side = 256 if math.prod(axes.batch) * axes.h <= 32 else 128
    return side, side


class Block(Range):
    """Block number ``start // size`` of an axis cut into blocks of `size`; the last may overhang."""

    def take(self, array: Any, axis: int) -> Any:
        """As :meth:`Range.take`, by slices alone: its transpose writes one block, not a scatter."""
        total = array.shape[axis]
        if total == 1:
            return array
        axis %= array.ndim
        if total < self.size:
            array = repeat_last(array, self.size - total, axis)
        first = jnp.minimum(self.start, max(total - self.size, 0))
        block = jax.lax.dynamic_slice_in_dim(array, first, self.size, axis)
        if total % self.size == 0 or total < self.size:
            return block
        longer = repeat_last(block, self.size - 1, axis)
        return jax.lax.dynamic_slice_in_dim(longer, self.start - first, self.size, axis)


def repeat_last(array: Any, times: int, axis: int) -> Array:
    """The array with its last element along an axis repeated so many times more."""
    if not times:
        return array
    last = jax.lax.slice_in_dim(array, array.shape[axis] - 1, array.shape[axis], axis=axis)
    shape = (*array.shape[:axis], times, *array.shape[axis + 1 :])
    return jnp.concatenate([array, jnp.broadcast_to(last, shape)], axis)


class Pairs(NamedTuple):
    """Tiles to visit, by the block numbers of their queries and keys, `n` each, numpy.

    live: whether any entry could be True, `n` booleans known only at run time; None where all are.
    """

    queries: Any
    keys: Any
    live: Array | None = None

    @property
    def size(self) -> int:
        """The number of tiles."""
        return self.queries.size


class TileList(NamedTuple):
    """The score matrix cut into tiles, those that no query looks at left out.

    `full` tiles need no masking; `partial` ones do. What a mask can say while tracing (positions
    that are ranges, numpy arrays) shortens the list; what it can only say at run time (packed
    segments, traced positions) marks tiles of the list to be skipped then.
    """

    queries: Cut
    keys: Cut
    full: Pairs
    partial: Pairs

    @property
    def total(self) -> int:
        """The number of tiles, visited or not."""
        return len(self.queries) * len(self.keys)


def tile_list(problem: Problem, size: tuple[int, int]) -> TileList:
    """The tiles of a problem, its queries and keys cut into blocks of these two sizes."""
    axes, bounds = problem.axes, problem.rule.mask.bounds
    queries = Cut(axes.t, max(1, min(size[0], axes.t)))
    keys = Cut(axes.s, max(1, min(size[1], axes.s)))
    shape = (len(queries), len(keys))
    known = bounds(Blocks(queries, keys, problem.positions, static=True))
    full = _over_heads("all", known.must, shape)
    if keys.total % keys.size:
        full[:, -1:] = False  # the last block of keys overhangs
    partial = _pairs(_over_heads("any", known.may, shape) & ~full)
    may = bounds(Blocks(queries, keys, problem.positions)).may
    if not isinstance(may, np.ndarray | np.generic):
        live = _over_heads("any", may, shape)
        partial = partial._replace(live=_for_any(live[partial.queries, partial.keys]))
    return TileList(queries, keys, _pairs(full), partial)


def _over_heads(quantifier: str, known: Any, shape: tuple[int, int]) -> Any:
    """What is known of each tile in any, or in all, of the batch rows and heads: `nq nk`."""
    known = getattr(known, quantifier)(tuple(range(known.ndim - 2)))
    xp = np if isinstance(known, np.ndarray | np.generic) else jnp
    return xp.broadcast_to(known, shape) | np.zeros(shape, bool)


@jax.custom_batching.custom_vmap
def _for_any(live: Array) -> Array:
    """Under ``vmap`` a tile is visited where any of the mapped problems needs it.

    So that skipping stays a branch: mapped, it would become a selection between both branches, which
    is neither faster nor, under reverse mode, something that JAX can transpose.
    """
    return live


@_for_any.def_vmap
def _(size: int, mapped: list[bool], live: Array) -> tuple[Array, bool]:
    return _for_any(live.any(0) if mapped[0] else live), False


def _pairs(tiles: np.ndarray) -> Pairs:
    queries, keys = np.nonzero(tiles)
    return Pairs(queries.astype(np.int32), keys.astype(np.int32))


def tile_at(problem: Problem, tiles: TileList, i: Any, j: Any) -> Tile:
    """The tile of query block i and key block j; both may be traced."""
    queries = Block(i * tiles.queries.size, tiles.queries.size)
    keys = Block(j * tiles.keys.size, tiles.keys.size)
    where = problem.positions
    return Tile(queries, keys, Positions(_part(where.q, queries), _part(where.k, keys)))


def _part(positions: Any, block: Block) -> Any:
    if isinstance(positions, Range):
        return positions.part(block)
    return block.take(jnp.asarray(positions), -1)
