"""Which axes of a problem's arrays run along the queries and the keys, so that they can be sharded."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec

from attn_jax.backends.problem import Problem
from attn_jax.functional import biases, block_masks, index_masks, position_masks
from attn_jax.functional import mask as algebra
from attn_jax.functional.bias import Bias, total
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything, per_head
from attn_jax.functional.position_biases import _Positional as positional_bias
from attn_jax.functional.tiles import Positions, Range
from attn_jax.functional.value import Array


class Along(NamedTuple):
    """The axes of an array that run along queries and along keys, counted from the end; or None."""

    queries: int | None = None
    keys: int | None = None

    @property
    def sharded(self) -> int | None:
        """The axis that is cut over devices: that of the queries where it has both."""
        return self.keys if self.queries is None else self.queries

    @property
    def travels(self) -> bool:
        """Whether it goes where its keys go."""
        return self.queries is None and self.keys is not None

    def spec(self, ndim: int, axis: str) -> PartitionSpec:
        """How an array is sharded over a mesh axis."""
        if self.sharded is None:
            return PartitionSpec()
        return PartitionSpec(*[None] * (ndim + self.sharded), axis)

    def part_of(self, shape: tuple[int, ...], devices: int) -> tuple[int, ...]:
        """The shape of what each device holds of an array."""
        if self.sharded is None:
            return shape
        at = len(shape) + self.sharded
        return (*shape[:at], shape[at] // devices, *shape[at + 1 :])


def axes_of(problem: Problem) -> list[Along]:
    """What each leaf of a problem runs along, in the order of ``jax.tree.leaves(problem)``.

    Raises:
      TypeError: a mask or a bias of which it is not known.
    """
    keys_at = len(problem.axes.batch)
    known = [Along(-3)]
    known += [Along(None, keys_at - leaf.ndim) for leaf in jax.tree.leaves(problem.k)]
    known += [Along(None, -3)] * (problem.v is not None)
    others = problem.rule, problem.positions, problem.dropout
    for part in jax.tree.leaves(others, is_leaf=lambda x: isinstance(x, Mask | Bias | Positions)):
        known += _axes(part)
    return known


def flags_for_lengths(rule: Any, keys: Array) -> Any:
    """The rule with each mask of lengths said by one flag per key, given the keys' indices `s`."""

    def flags(part: Any) -> Any:
        if not isinstance(part, index_masks.lengths):
            return part
        return index_masks.valid(keys < part.n[..., None])

    return jax.tree.map(flags, rule, is_leaf=lambda x: isinstance(x, index_masks.lengths))


@functools.singledispatch
def _axes(part: Any) -> list[Along]:
    """What each leaf of a part of a problem runs along; anything but masks and biases: nothing."""
    return [Along()]


@_axes.register(Mask)
@_axes.register(Bias)
def _(part: Any) -> list[Along]:
    raise TypeError(
        f"it is not known whether the arrays of {part!r} run along queries or keys: build it from "
        "attn_jax.masks and attn_jax.biases"
    )


@_axes.register(Positions)
def _(part: Positions) -> list[Along]:
    known = []
    for positions, along in ((part.q, Along(-1)), (part.k, Along(None, -1))):
        is_range = isinstance(positions, Range)
        known += [Along() if is_range else along] * len(jax.tree.leaves(positions))
    return known


@_axes.register(everything)
@_axes.register(index_masks.lengths)
@_axes.register(position_masks._Positional)
@_axes.register(positional_bias)
def _(part: Any) -> list[Along]:
    return [Along()] * len(jax.tree.leaves(part))


@_axes.register(algebra._Pair)
@_axes.register(total)
def _(part: Any) -> list[Along]:
    return _axes(part.a) + _axes(part.b)


@_axes.register(algebra.complement)
@_axes.register(block_masks.by_block)
def _(part: Any) -> list[Along]:
    return _axes(part.mask)


@_axes.register
def _(part: per_head) -> list[Along]:
    return [along for mask in part.masks for along in _axes(mask)]


@_axes.register
def _(part: index_masks.valid) -> list[Along]:
    return [Along(None, -1)]


@_axes.register
def _(part: index_masks.segments) -> list[Along]:
    return [Along(-1), Along(None, -1)]


@_axes.register
def _(part: index_masks.global_tokens) -> list[Along]:
    queries, keys = part.queries is not None, part.keys is not None
    return [Along(-1)] * queries + [Along(None, -1)] * keys


@_axes.register(index_masks.explicit)
@_axes.register(biases.dense)
def _(part: Any) -> list[Along]:
    shape = np.shape(part.array) if not hasattr(part.array, "shape") else part.array.shape
    runs = [axis if len(shape) >= -axis and shape[axis] > 1 else None for axis in (-2, -1)]
    return [Along(*runs)]
