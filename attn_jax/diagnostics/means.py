"""Means over the queries that count, of all or of some at a time."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array


class Mean(NamedTuple):
    """A mean that is not divided yet: blocks of queries add up; each `h`, or whatever is asked of."""

    total: Array
    number: Array

    def joined(self) -> Mean:
        """Of blocks of queries, along the first axis, that of all."""
        return Mean(self.total.sum(0), self.number.sum(0))

    @property
    def value(self) -> Array:
        """NaN where no query counts.

        >>> Mean(jnp.array([3.0, 0.0]), jnp.array([2, 0])).value
        Array([1.5, nan], dtype=float32)
        """
        return jnp.where(self.number > 0, self.total / jnp.maximum(self.number, 1), jnp.nan)


def over_queries(x: Array, counts: Array) -> Mean:
    """Of `*b h t`, over batch rows and queries that count: `h`."""
    every = tuple(i for i in range(x.ndim) if i != x.ndim - 2)
    counts = jnp.broadcast_to(counts, x.shape)
    return Mean(jnp.where(counts, x, 0).sum(every), counts.sum(every))


def counting(looking: Array, real: Array | None) -> Array:
    """Which queries count, `*b h t`: those that look, and are `real`, `*b t` or `*b h t`.

    Raises:
      TypeError: `real` are not booleans.
    """
    if real is None:
        return looking
    real = jnp.asarray(real)
    if real.dtype != bool:
        raise TypeError(f"real must be booleans *b t or *b h t, got {real.dtype}")
    return looking & (real if real.ndim == looking.ndim else real[..., None, :])
