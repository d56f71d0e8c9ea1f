"""Masks that patterns of blocks are made of; all of positions, and known by their bounds."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from attn_jax.functional.mask import Axes, Bounds, Mask
from attn_jax.functional.mask_checks import positive
from attn_jax.functional.position_masks import _Positional
from attn_jax.functional.tiles import Blocks, Positions, Range, Tile
from attn_jax.functional.value import Array


class by_block(Mask):
    """A mask of block numbers: the mask within reads ``⌊i / n⌋`` and ``⌊j / n⌋`` for positions.

    Args:
      mask: of positions.
      n: the size of a block, a Python integer of at least 1, in positions.

    Shapes:
      entries: those of the mask within.

    Reference: Zaheer et al. (2020), section 2 (blocks).

    >>> from attn_jax.functional.position_masks import causal
    >>> print(by_block(causal(), 2).show(4))
    ■ ■ · ·
    ■ ■ · ·
    ■ ■ ■ ■
    ■ ■ ■ ■
    """

    mask: Mask
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", positive("by_block(n)", self.n))
        super().__post_init__()

    @property
    def reads_positions(self) -> bool:
        return self.mask.reads_positions

    def check(self, axes: Axes) -> None:
        self.mask.check(axes)

    def allowed(self, tile: Tile) -> Array:
        return self.mask.allowed(tile.replace(positions=self._numbers(tile.positions)))

    def bounds(self, blocks: Blocks) -> Bounds:
        return self.mask.bounds(blocks.replace(positions=self._numbers(blocks.positions)))

    def _numbers(self, positions: Positions) -> Positions:
        return Positions(_array(positions.q) // self.n, _array(positions.k) // self.n)


def _array(positions: Any) -> Any:
    """Positions as an array, numpy where they are known."""
    if not isinstance(positions, Range):
        return positions
    if isinstance(positions.start, int):
        return np.arange(positions.start, positions.start + positions.size, dtype=np.int32)
    return positions.array()


class first_queries(_Positional):
    """The first n positions look at everyone, ``i < n``. (``prefix`` is: everyone looks at them.)

    Shapes:
      entries: `t 1`, or `*b 1 t 1` where positions differ between batch rows.

    Reference: Zaheer et al. (2020), section 2 (global tokens).

    >>> print(first_queries(1).show(2))
    ■ ■
    · ·
    """

    n: int

    def allowed(self, tile: Tile) -> Array:
        return tile.i < self.n

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        return Bounds(q_low < self.n, q_high < self.n)


class block_ends(_Positional):
    """The last few positions of each block of n: ``j mod n ≥ n − count``.

    Args:
      n: the size of a block, a Python integer of at least 1, in positions.
      count: how many positions at its end.

    Shapes:
      entries: `1 s`, or `*b 1 1 s` where positions differ between batch rows.

    Reference: Child et al. (2019), section 4.3 (fixed).

    >>> print(block_ends(3, 1).show(1, 6))
    · · ■ · · ■
    """

    n: int
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", positive("block_ends(n)", self.n))
        object.__setattr__(self, "count", positive("block_ends(count)", self.count))
        super().__post_init__()

    def allowed(self, tile: Tile) -> Array:
        return tile.j % self.n >= self.n - self.count

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        first = self.n - self.count
        one_block = k_low // self.n == k_high // self.n
        may = (k_high % self.n >= first) | (one_block ^ np.True_)
        return Bounds(may, one_block & (k_low % self.n >= first))


class random_earlier(_Positional):
    """A few positions for each query, drawn without replacement among those before it.

    That is ``j ∈ R(i)``, where R(i) holds `count` of the positions ``first ≤ j < i − gap``, or all of
    them where there are fewer. A draw depends on the seed and the query's position alone: a longer
    sequence keeps what a shorter one had.

    Args:
      count: how many positions a query looks at.
      seed: which draw.
      first: the earliest eligible position.
      gap: eligible positions are those before ``i − gap``.

    Shapes:
      entries: `t s`, or `*b 1 t s` where positions differ between batch rows.

    References: Zaheer et al. (2020), section 2 (random attention); the draw: Bentley and Floyd (1987).

    >>> random_earlier(2, seed=0).dense(6, 6).sum(-1)
    Array([0, 1, 2, 2, 2, 2], dtype=int32)
    """

    count: int
    seed: int = 0
    first: int = 0
    gap: int = 0

    def __post_init__(self) -> None:
        for name in ("count", "seed", "first", "gap"):
            given = getattr(self, name)
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                raise ValueError(
                    f"masks.random_earlier({name}) must be a non-negative integer, got {given!r}"
                )
        super().__post_init__()

    def drawn(self, i: Any) -> list[tuple[Any, Any]]:
        """For queries at positions i: `count` pairs of a position, and whether it exists."""
        xp = np if isinstance(i, np.ndarray | np.generic) else jnp
        eligible = xp.maximum(i - self.gap - self.first, 0)
        among = xp.maximum(eligible, self.count)
        offsets: list[Any] = []
        for n in range(
            self.count
        ):  # Floyd's sampling: the n-th draw is among one more than the last
            top = among - self.count + n
            bits = _hash(i, np.uint32(self.seed & 0xFFFFFFFF), np.uint32(n))
            offset = (bits % (top + 1).astype(np.uint32)).astype(np.int32)
            for earlier in offsets:
                offset = xp.where(offset == earlier, -1, offset)
            offsets.append(xp.where(offset < 0, top, offset))
        return [(self.first + offset, offset < eligible) for offset in offsets]

    def allowed(self, tile: Tile) -> Array:
        allowed = jnp.zeros((1, 1), bool)
        for position, exists in self.drawn(tile.i):
            allowed = allowed | ((tile.j == position) & exists)
        return allowed

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        eligible = (k_high >= self.first) & (k_low < q_high - self.gap)
        if not isinstance(q_low, np.ndarray) or not isinstance(k_low, np.ndarray):
            return Bounds(eligible, np.False_)  # how many queries a tile has is not known here
        may: Any = np.False_
        must: Any = k_low == k_high
        for step in range(int((q_high - q_low).max(initial=-1)) + 1):
            i = np.minimum(q_low + step, q_high)
            hits = [(k_low <= j) & (j <= k_high) & exists for j, exists in self.drawn(i)]
            hit = np.any(np.broadcast_arrays(*hits), axis=0) if hits else np.False_
            may, must = may | hit, must & hit
        return Bounds(may, must)


def _hash(i: Any, seed: Any, n: Any) -> Any:
    """32 bits for each position, seed and draw; the same from numpy and from JAX."""
    with np.errstate(over="ignore"):
        x = _mix(seed ^ np.uint32(0x9E3779B1)) ^ _mix(n * np.uint32(0x85EBCA77) + np.uint32(1))
        return _mix(_mix(i.astype(np.uint32) * np.uint32(0xC2B2AE3D) ^ x) + x)


def _mix(x: Any) -> Any:
    """A bijection of 32-bit words under which every bit of x moves every bit of the result."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))
