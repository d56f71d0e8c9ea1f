"""Masks of indices: they follow the order of the arrays given to ``attend``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from attn_jax.functional.mask import UNKNOWN, Axes, Bounds, Mask
from attn_jax.functional.mask_checks import (
    as_array,
    broadcasts,
    expect_axis,
    expect_batch,
    expect_booleans,
    expect_length,
    integers,
)
from attn_jax.functional.tiles import Blocks, Tile
from attn_jax.functional.value import Array


class valid(Mask):
    """Keys that are real tokens, not padding: ``array[j]``.

    Args:
      array: `*b s`, booleans (or integers 0 and 1): True for real.

    Shapes:
      entries: `*b 1 1 s`.

    Raises:
      TypeError, ValueError: the array holds anything else, such as token ids.

    >>> print(valid([True, True, False]).show(2, 3))
    ■ ■ ·
    ■ ■ ·
    """

    array: Any

    def __post_init__(self) -> None:
        array = as_array(self.array)
        if not (array.dtype == bool or jnp.issubdtype(array.dtype, jnp.integer)):
            expect_booleans("valid(array)", array)
        expect_axis("valid(array)", "*b s", array)
        if (
            isinstance(array, np.ndarray)
            and array.dtype != bool
            and not np.isin(array, (0, 1)).all()
        ):
            raise ValueError(
                "masks.valid(array) takes booleans or integers 0 and 1, got integers from "
                f"{array.min()} to {array.max()}: for token ids write ids != padding"
            )
        object.__setattr__(self, "array", array != 0)
        super().__post_init__()

    def check(self, axes: Axes) -> None:
        expect_length("valid(array)", "s", self.array.shape[-1], axes.s)
        expect_batch("valid(array)", "*b s", self.array.shape[:-1], axes.batch)

    def allowed(self, tile: Tile) -> Array:
        return tile.of_keys(self.array)

    def bounds(self, blocks: Blocks) -> Bounds:
        if not blocks.knows(self.array):
            return UNKNOWN
        some, all_ = blocks.keys.any(self.array), blocks.keys.all(self.array)
        return Bounds(some[..., None, None, :], all_[..., None, None, :])


class lengths(Mask):
    """The first n keys of each batch row, by index: ``j < n``.

    Args:
      n: `*b`, integers, or one integer for all rows; possibly traced.

    Shapes:
      entries: `*b 1 1 s`, or `1 s` for one integer.

    >>> print(lengths(2).show(1, 4))
    ■ ■ · ·
    """

    n: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", as_array(integers("lengths(n)", self.n)))
        super().__post_init__()

    def check(self, axes: Axes) -> None:
        expect_batch("lengths(n)", "*b", self.n.shape, axes.batch)

    def _n(self) -> Any:
        return self.n[..., None, None, None] if self.n.ndim else self.n

    def allowed(self, tile: Tile) -> Array:
        return tile.keys.array()[None, :] < self._n()

    def bounds(self, blocks: Blocks) -> Bounds:
        if not blocks.knows(self.n):
            return UNKNOWN
        first = np.arange(len(blocks.keys)) * blocks.keys.size
        stop = np.minimum(first + blocks.keys.size, blocks.keys.total)
        return Bounds(first[None, :] < self._n(), stop[None, :] <= self._n())


class segments(Mask):
    """Packed documents: a query looks at keys of its own segment, ``query_ids[i] = key_ids[j] ≥ 0``.

    A negative id is padding, which sees no one and is seen by no one.

    Args:
      query_ids: `*b t`, integers.
      key_ids: `*b s`, integers; the query ids when left out.

    Shapes:
      entries: `*b 1 t s`.

    Reference: Krell et al. (2021).

    >>> print(segments([0, 0, 1, -1]).show(4))
    ■ ■ · ·
    ■ ■ · ·
    · · ■ ·
    · · · ·
    """

    query_ids: Any
    key_ids: Any = None

    def __post_init__(self) -> None:
        keys = self.query_ids if self.key_ids is None else self.key_ids
        for name, ids, layout in (("query_ids", self.query_ids, "*b t"), ("key_ids", keys, "*b s")):
            ids = as_array(integers(f"segments({name})", ids))
            expect_axis(f"segments({name})", layout, ids)
            object.__setattr__(self, name, ids)
        super().__post_init__()

    def check(self, axes: Axes) -> None:
        for name, ids, axis, size in (
            ("query_ids", self.query_ids, "t", axes.t),
            ("key_ids", self.key_ids, "s", axes.s),
        ):
            expect_length(f"segments({name})", axis, ids.shape[-1], size)
            expect_batch(f"segments({name})", f"*b {axis}", ids.shape[:-1], axes.batch)

    def allowed(self, tile: Tile) -> Array:
        q, k = tile.of_queries(self.query_ids), tile.of_keys(self.key_ids)
        return (q == k) & (q >= 0)

    def bounds(self, blocks: Blocks) -> Bounds:
        if not blocks.knows(self.query_ids, self.key_ids):
            return UNKNOWN
        q_low, q_high = (x[..., None, :, None] for x in blocks.queries.span(self.query_ids))
        k_low, k_high = (x[..., None, None, :] for x in blocks.keys.span(self.key_ids))
        may = (q_low <= k_high) & (k_low <= q_high) & (q_high >= 0) & (k_high >= 0)
        must = (q_low == q_high) & (k_low == k_high) & (q_low == k_low) & (q_low >= 0)
        return Bounds(may, must)


class global_tokens(Mask):
    """A few tokens that look at everyone, or are looked at by everyone: ``queries[i] | keys[j]``.

    Args:
      queries: `*b t`, booleans: queries that look at every key; None for none.
      keys: `*b s`, booleans: keys that every query looks at; None for none.

    Shapes:
      entries: `*b 1 t s`; `*b 1 t 1` of queries alone, `*b 1 1 s` of keys alone.

    Reference: Beltagy, Peters and Cohan (2020), section 3.1 (global attention).

    >>> print(global_tokens(queries=[True, False], keys=[True, False]).show(2))
    ■ ■
    ■ ·
    """

    queries: Any = None
    keys: Any = None

    def __post_init__(self) -> None:
        for name, layout in (("queries", "*b t"), ("keys", "*b s")):
            if getattr(self, name) is not None:
                array = as_array(getattr(self, name))
                expect_booleans(f"global_tokens({name})", array)
                expect_axis(f"global_tokens({name})", layout, array)
                object.__setattr__(self, name, array)
        super().__post_init__()

    def check(self, axes: Axes) -> None:
        for name, array, axis, size in (
            ("queries", self.queries, "t", axes.t),
            ("keys", self.keys, "s", axes.s),
        ):
            if array is not None:
                expect_length(f"global_tokens({name})", axis, array.shape[-1], size)
                expect_batch(f"global_tokens({name})", f"*b {axis}", array.shape[:-1], axes.batch)

    def allowed(self, tile: Tile) -> Array:
        allowed = jnp.zeros((1, 1), bool)
        if self.queries is not None:
            allowed = allowed | tile.of_queries(self.queries)
        if self.keys is not None:
            allowed = allowed | tile.of_keys(self.keys)
        return allowed

    def bounds(self, blocks: Blocks) -> Bounds:
        may: Any = np.False_
        must: Any = np.False_
        for array, cut, column in (
            (self.queries, blocks.queries, True),
            (self.keys, blocks.keys, False),
        ):
            if array is None:
                continue
            if not blocks.knows(array):
                may = np.True_
                continue
            some, all_ = cut.any(array)[..., None, None, :], cut.all(array)[..., None, None, :]
            if column:
                some, all_ = some.swapaxes(-1, -2), all_.swapaxes(-1, -2)
            may, must = may | some, must | all_
        return Bounds(may, must)


class explicit(Mask):
    """Any boolean array, ``array[…, i, j]``.

    Args:
      array: booleans that broadcast to `*b h t s`.

    Shapes:
      entries: those of the array.

    Raises:
      TypeError: the array is not boolean; an additive mask is a bias.

    >>> explicit([[True, False], [True, True]]) & ~valid([True, True])
    explicit(bool[2,2]) & ~valid(bool[2])
    """

    array: Any

    def __post_init__(self) -> None:
        array = as_array(self.array)
        expect_booleans("explicit(array)", array)
        array = array.reshape((1,) * (2 - array.ndim) + array.shape)
        object.__setattr__(self, "array", array)
        super().__post_init__()

    def check(self, axes: Axes) -> None:
        target = (*axes.batch, axes.h, axes.t, axes.s)
        shape = self.array.shape
        if not broadcasts(shape, target):
            raise ValueError(
                f"masks.explicit(array) must broadcast to *b h t s = {target}, got shape {shape}"
            )

    def allowed(self, tile: Tile) -> Array:
        return tile.of_both(self.array)

    def bounds(self, blocks: Blocks) -> Bounds:
        if not blocks.knows(self.array):
            return UNKNOWN
        some = blocks.keys.any(blocks.queries.any(self.array, -2), -1)
        all_ = blocks.keys.all(blocks.queries.all(self.array, -2), -1)
        return Bounds(some, all_)
