"""Masks of positions: they follow the positions given to ``attend``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.functional.mask import UNKNOWN, Axes, Bounds, Mask
from attn_jax.functional.mask_checks import (
    expect_batch,
    expect_booleans,
    integer,
    integers,
    positive,
)
from attn_jax.functional.tiles import Blocks, Tile
from attn_jax.functional.value import Array


class _Positional(Mask):
    """A mask of positions; subclasses say what is known of a rectangle of them."""

    @property
    def reads_positions(self) -> bool:
        return True

    def bounds(self, blocks: Blocks) -> Bounds:
        spans = blocks.spans()
        numbers = [x for x in jax.tree.leaves(self) if x is not None]
        if spans is None or not blocks.knows(*numbers):
            return UNKNOWN
        return self.bounds_between(*spans)

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        """What is known when the queries lie in [q_low, q_high] and the keys in [k_low, k_high]."""
        raise NotImplementedError


class _Band(_Positional):
    def limits(self) -> tuple[Any, Any]:
        """The lowest and the highest ``j − i`` allowed; None for no limit."""
        raise NotImplementedError

    def allowed(self, tile: Tile) -> Array:
        low, high = self.limits()
        inside = jnp.ones((1, 1), bool)
        if low is not None:
            inside = tile.j >= tile.i + low
        if high is not None:
            inside = inside & (tile.j <= tile.i + high)
        return inside

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        low, high = self.limits()
        may, must = np.True_, np.True_
        if low is not None:
            may, must = k_high - q_low >= low, k_low - q_high >= low
        if high is not None:
            may, must = may & (k_low - q_high <= high), must & (k_high - q_low <= high)
        return Bounds(may, must)


class band(_Band):
    """Keys at a distance within limits: ``low ≤ j − i ≤ high``; None leaves a side open.

    Args:
      low, high: integers, possibly traced, in positions.

    Shapes:
      entries: `t s`, or `*b 1 t s` where positions differ between batch rows.

    >>> print(band(-1, 1).show(3))
    ■ ■ ·
    ■ ■ ■
    · ■ ■
    """

    low: Any = None
    high: Any = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integer(f"band({name})", getattr(self, name)))
        super().__post_init__()

    def limits(self) -> tuple[Any, Any]:
        return self.low, self.high


class causal(_Band):
    """A query looks at itself and what came before: ``j ≤ i + offset``.

    Args:
      offset: an integer, possibly traced, in positions; −1 hides the query itself.

    Shapes:
      entries: `t s`, or `*b 1 t s` where positions differ between batch rows.

    Reference: Vaswani et al. (2017), section 3.2.3.

    >>> print(causal().show(3))
    ■ · ·
    ■ ■ ·
    ■ ■ ■
    """

    offset: Any = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", integer("causal(offset)", self.offset))
        super().__post_init__()

    def limits(self) -> tuple[Any, Any]:
        return None, self.offset


class window(_Band):
    """The neighbourhood of each query, itself included: ``−before ≤ j − i ≤ after``.

    Args:
      before, after: integers, possibly traced, in positions.

    Shapes:
      entries: `t s`, or `*b 1 t s` where positions differ between batch rows.

    Reference: Beltagy, Peters and Cohan (2020), section 3.1.

    >>> window(1, 0).dense(4, 4).sum(-1)
    Array([1, 2, 2, 2], dtype=int32)
    """

    before: Any
    after: Any

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            object.__setattr__(self, name, integer(f"window({name})", getattr(self, name)))
        super().__post_init__()

    def limits(self) -> tuple[Any, Any]:
        return -self.before, self.after


class diagonal(_Band):
    """The key at the query's own position, ``j = i``; ``~diagonal()`` leaves one out.

    Shapes:
      entries: `t s`, or `*b 1 t s` where positions differ between batch rows.

    Reference: Stone (1974), for leaving one out.

    >>> print((~diagonal()).show(2))
    · ■
    ■ ·
    """

    def limits(self) -> tuple[Any, Any]:
        return 0, 0


class prefix(_Positional):
    """Everyone may look at the first n positions: ``j < n``.

    Args:
      n: an integer, or one per batch row, `*b`.

    Shapes:
      entries: `1 s`, or `*b 1 1 s` where n or positions differ between batch rows.

    Reference: Raffel et al. (2020), section 3.2.1.

    >>> print((causal() | prefix(2)).show(3))
    ■ ■ ·
    ■ ■ ·
    ■ ■ ■
    """

    n: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", integers("prefix(n)", self.n))
        super().__post_init__()

    def _n(self) -> Any:
        return self.n if np.ndim(self.n) == 0 else self.n[..., None, None, None]

    def check(self, axes: Axes) -> None:
        expect_batch("prefix(n)", "*b", np.shape(self.n), axes.batch)

    def allowed(self, tile: Tile) -> Array:
        return tile.j < self._n()

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        return Bounds(k_low < self._n(), k_high < self._n())


class stride(_Positional):
    """Every n-th position, counted from the query: ``(i − j) mod n = 0``.

    Args:
      n: a Python integer of at least 1, in positions.

    Shapes:
      entries: `t s`, or `*b 1 t s` where positions differ between batch rows.

    Reference: Child et al. (2019), section 4.3 (strided).

    >>> print(stride(2).show(3))
    ■ · ■
    · ■ ·
    ■ · ■
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", positive("stride(n)", self.n))
        super().__post_init__()

    def allowed(self, tile: Tile) -> Array:
        return (tile.i - tile.j) % self.n == 0

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        nearest, furthest = q_low - k_high, q_high - k_low
        one = (nearest == furthest) | np.bool_(self.n == 1)
        return Bounds(furthest // self.n * self.n >= nearest, one & (nearest % self.n == 0))


class same_block(_Positional):
    """Queries look inside their own block of n positions: ``⌊i / n⌋ = ⌊j / n⌋``.

    Args:
      n: a Python integer of at least 1, in positions.

    Shapes:
      entries: `t s`, or `*b 1 t s` where positions differ between batch rows.

    Reference: Child et al. (2019), section 4.3 (fixed).

    >>> print(same_block(2).show(3))
    ■ ■ ·
    ■ ■ ·
    · · ■
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", positive("same_block(n)", self.n))
        super().__post_init__()

    def allowed(self, tile: Tile) -> Array:
        return tile.i // self.n == tile.j // self.n

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        q0, q1, k0, k1 = (x // self.n for x in (q_low, q_high, k_low, k_high))
        return Bounds((q0 <= k1) & (k0 <= q1), (q0 == q1) & (k0 == k1) & (q0 == k0))


class where(_Positional):
    """Your own predicate of positions, ``fn(i, j)``.

    Args:
      fn: ``fn(i, j) -> booleans``; receives query and key positions as integer arrays that broadcast
        against each other. It may close over traced arrays.
      bound: ``bound(i_low, i_high, j_low, j_high) -> (may, must)``, in array operations: whether any,
        and whether all, of the rectangle is True. Without it every tile is visited.

    Shapes:
      entries: what `fn` returns, booleans that broadcast to `*b h t s`.

    Raises:
      TypeError: what is given is no function, or `fn` does not return booleans.

    >>> print(where(lambda i, j: i + j == 2).show(3))
    · · ■
    · ■ ·
    ■ · ·
    """

    fn: Callable[[Any, Any], Any]
    bound: Callable[[Any, Any, Any, Any], tuple[Any, Any]] | None = None

    def __post_init__(self) -> None:
        for name in ("fn", "bound"):
            given = getattr(self, name)
            if not callable(given) and not (name == "bound" and given is None):
                raise TypeError(f"masks.where({name}) must be a function, got {given!r}")
        super().__post_init__()

    def allowed(self, tile: Tile) -> Array:
        entries = jnp.asarray(self.fn(tile.i, tile.j))
        expect_booleans(f"where({getattr(self.fn, '__name__', 'fn')})", entries)
        return entries.reshape((1,) * (2 - entries.ndim) + entries.shape)

    def bounds(self, blocks: Blocks) -> Bounds:
        if not blocks.static:
            return super().bounds(blocks)
        with jax.ensure_compile_time_eval():  # a bound may be written with jax.numpy
            known = super().bounds(blocks)
        if any(isinstance(x, jax.core.Tracer) for x in known):  # it closes over a traced array
            return UNKNOWN
        return Bounds(*(np.asarray(x) for x in known))

    def bounds_between(self, q_low: Any, q_high: Any, k_low: Any, k_high: Any) -> Bounds:
        if self.bound is None:
            return UNKNOWN
        return Bounds(*self.bound(q_low, q_high, k_low, k_high))
