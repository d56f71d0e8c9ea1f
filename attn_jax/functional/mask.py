"""The algebra of masks: what a mask is, and how masks combine."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from attn_jax.functional.tiles import Blocks, Cut, Positions, Tile, whole
from attn_jax.functional.value import Array, Value


class Bounds(NamedTuple):
    """What is known of the tiles of a mask; arrays that broadcast to `*b h nq nk`.

    `may`: whether any entry of the tile could be True. `must`: whether all are. `may` is never
    False for a tile with a True entry, `must` never True for a tile with a False one; either may be
    pessimistic.
    """

    may: Any
    must: Any


UNKNOWN = Bounds(np.True_, np.False_)


class Axes(NamedTuple):
    """The sizes an attention problem has: batch axes, query heads, queries, keys."""

    batch: tuple[int, ...]
    h: int
    t: int
    s: int


class Mask(Value):
    """Which queries may look at which keys: True = may look. Closed under ``& | ~ ^``.

    A mask answers three questions: which entries of a tile are True (`allowed`), what is known of
    whole tiles without looking at their entries (`bounds`), and whether it fits a problem (`check`).
    A subclass needs only the first.

    Shapes:
      entries: booleans that broadcast to `*b h t s`.

    >>> class later(Mask):
    ...     reads_positions = True
    ...     def allowed(self, tile):
    ...         return tile.j > tile.i
    >>> print(later().show(2))
    · ■
    · ·
    """

    @property
    def reads_positions(self) -> bool:
        """Whether the mask depends on positions (else on indices, or on nothing)."""
        return False

    def allowed(self, tile: Tile) -> Array:
        """The entries on a tile, booleans that broadcast to `*b h t s`."""
        raise NotImplementedError

    def bounds(self, blocks: Blocks) -> Bounds:
        """What is known of each block."""
        return UNKNOWN

    def check(self, axes: Axes) -> None:
        """Raises ValueError, naming the axes, where the mask does not fit the problem."""

    def __and__(self, other: Mask) -> Mask:
        return _combine(both, self, other)

    def __or__(self, other: Mask) -> Mask:
        return _combine(either, self, other)

    def __xor__(self, other: Mask) -> Mask:
        return _combine(one_of, self, other)

    def __invert__(self) -> Mask:
        return self.mask if isinstance(self, complement) else complement(self)

    # An array on the left of an operator leaves the answer, which is an error, to the mask.
    __array_ufunc__ = None

    def __rand__(self, other: Any) -> Mask:
        return _combine(both, self, other)

    __ror__ = __rxor__ = __rand__

    def __bool__(self) -> bool:
        raise TypeError(
            "a mask has no truth value: combine masks with & | ~ ^, not with and, or, not"
        )

    def dense(self, t: int, s: int, positions: Positions | str | None = None) -> Array:
        """All entries, booleans: `t s` where only positions are read, else `*b h t s` (or broadcast).

        Positions are indices unless given. Raises ValueError where the mask is not of t × s.

        >>> from attn_jax.functional import masks
        >>> masks.causal().dense(2, 3).astype(int)
        Array([[1, 0, 0],
               [1, 1, 0]], dtype=int32)
        """
        entries = self.allowed(whole(t, s, positions))
        *batch, h = (1, *entries.shape[:-2])
        self.check(Axes(tuple(batch), h, t, s))
        return jnp.broadcast_to(entries, (*entries.shape[:-2], t, s))

    def show(self, t: int, s: int | None = None, positions: Positions | str | None = None) -> str:
        """The mask drawn in text, a line a query: ``■`` may look, ``·`` may not.

        Where it differs between batch rows or heads, a picture for each.

        >>> from attn_jax.functional import masks
        >>> print(masks.window(1, 0).show(3))
        ■ · ·
        ■ ■ ·
        · ■ ■
        """
        entries = np.asarray(self.dense(t, t if s is None else s, positions))
        pictures = entries.reshape(-1, *entries.shape[-2:])
        drawn = ["\n".join(" ".join("·■"[int(e)] for e in row) for row in p) for p in pictures]
        return "\n\n".join(drawn)

    def block_map(
        self, t: int, s: int, tile: tuple[int, int], positions: Positions | str | None = None
    ) -> Bounds:
        """`bounds` of the whole matrix in tiles of (queries, keys), as boolean arrays `… nq nk`."""
        blocks = Blocks(Cut(t, tile[0]), Cut(s, tile[1]), whole(t, s, positions).positions)
        may, must = self.bounds(blocks)
        shape = (len(blocks.queries), len(blocks.keys))
        grow = [np.broadcast_shapes(np.shape(x), shape) for x in (may, must)]
        xp = [np if isinstance(x, np.ndarray | np.generic) else jnp for x in (may, must)]
        return Bounds(xp[0].broadcast_to(may, grow[0]), xp[1].broadcast_to(must, grow[1]))


def _combine(how: type, a: Mask, b: Any) -> Mask:
    if not isinstance(b, Mask):
        hint = "wrap a boolean array with masks.explicit(array) or masks.valid(array)"
        raise TypeError(f"masks combine with masks, got {type(b).__name__}: {hint}")
    return how(a, b)


class _Pair(Mask):
    a: Mask
    b: Mask

    @property
    def reads_positions(self) -> bool:
        return self.a.reads_positions or self.b.reads_positions

    def check(self, axes: Axes) -> None:
        self.a.check(axes)
        self.b.check(axes)


class both(_Pair):
    """``a & b``: True where both are."""

    def allowed(self, tile: Tile) -> Array:
        return self.a.allowed(tile) & self.b.allowed(tile)

    def bounds(self, blocks: Blocks) -> Bounds:
        a, b = self.a.bounds(blocks), self.b.bounds(blocks)
        return Bounds(a.may & b.may, a.must & b.must)

    def __repr__(self) -> str:
        return " & ".join(_wrapped(m, (either, one_of)) for m in (self.a, self.b))


class either(_Pair):
    """``a | b``: True where one or both are."""

    def allowed(self, tile: Tile) -> Array:
        return self.a.allowed(tile) | self.b.allowed(tile)

    def bounds(self, blocks: Blocks) -> Bounds:
        a, b = self.a.bounds(blocks), self.b.bounds(blocks)
        return Bounds(a.may | b.may, a.must | b.must)

    def __repr__(self) -> str:
        return f"{self.a!r} | {self.b!r}"


class one_of(_Pair):
    """``a ^ b``: True where exactly one is."""

    def allowed(self, tile: Tile) -> Array:
        return self.a.allowed(tile) ^ self.b.allowed(tile)

    def bounds(self, blocks: Blocks) -> Bounds:
        a, b = self.a.bounds(blocks), self.b.bounds(blocks)
        differ = (a.must & _not(b.may)) | (b.must & _not(a.may))
        agree = (a.must & b.must) | _not(a.may | b.may)
        return Bounds(_not(agree), differ)

    def __repr__(self) -> str:
        return " ^ ".join(_wrapped(m, (either,)) for m in (self.a, self.b))


class complement(Mask):
    """``~mask``: True where the mask is False."""

    mask: Mask

    @property
    def reads_positions(self) -> bool:
        return self.mask.reads_positions

    def check(self, axes: Axes) -> None:
        self.mask.check(axes)

    def allowed(self, tile: Tile) -> Array:
        return ~self.mask.allowed(tile)

    def bounds(self, blocks: Blocks) -> Bounds:
        may, must = self.mask.bounds(blocks)
        return Bounds(_not(must), _not(may))

    def __repr__(self) -> str:
        return f"~{_wrapped(self.mask, (_Pair,))}"


def _wrapped(mask: Mask, loose: tuple[type, ...]) -> str:
    """The mask as text, in brackets where it binds more loosely than what it stands in."""
    return f"({mask!r})" if isinstance(mask, loose) else repr(mask)


def _not(known: Any) -> Any:
    return known ^ np.True_
