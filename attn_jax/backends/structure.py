"""Masks that are a band of the score matrix and a number of keys: what kernels know by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from attn_jax.backends.problem import Problem
from attn_jax.functional.index_masks import lengths
from attn_jax.functional.mask import Mask, both
from attn_jax.functional.masks import everything
from attn_jax.functional.position_masks import band, causal, diagonal, window
from attn_jax.functional.tiles import Range
from attn_jax.functional.value import Array


class Structure(NamedTuple):
    """Of t queries and s keys, query i may look at keys i + low to i + high of the first n, by index.

    low: 1 − t or more, which bounds nothing. high: s − 1 or less. n: broadcasts to `*b`; None for s.
    """

    t: int
    s: int
    low: int
    high: int
    n: Any

    @property
    def from_start(self) -> bool:
        """Whether there is no lower bound."""
        return self.low == 1 - self.t

    @property
    def to_end(self) -> bool:
        """Whether there is no upper bound."""
        return self.high == self.s - 1

    def seeing(self) -> Array:
        """Which queries see any key, `t` or `*b t`."""
        i = jnp.arange(self.t)
        first, last = jnp.maximum(i + self.low, 0), jnp.minimum(i + self.high, self.s - 1)
        return (first <= last) & (first < self._count())

    def seen(self) -> Array:
        """Which keys any query sees, `s` or `*b s`."""
        j = jnp.arange(self.s)
        first, last = jnp.maximum(j - self.high, 0), jnp.minimum(j - self.low, self.t - 1)
        return (first <= last) & (j < self._count())

    def _count(self) -> Any:
        return self.s if self.n is None else jnp.asarray(self.n)[..., None]


def structure_of(problem: Problem) -> Structure | None:
    """The mask of a problem as a band and a number of keys; None where it is not known to be that."""
    _, _, t, s = problem.axes
    lows, highs, counts = [1 - t], [s - 1], []
    shift = shift_of(problem)
    for mask in conjuncts(problem.rule.mask):
        if isinstance(mask, lengths):
            counts.append(mask.n)
        elif isinstance(mask, band | causal | diagonal | window):
            low, high = mask.limits()
            if shift is None or not all(x is None or isinstance(x, int) for x in (low, high)):
                return None
            lows += [] if low is None else [low + shift]
            highs += [] if high is None else [high + shift]
        elif not isinstance(mask, everything):
            return None
    n = None
    for count in counts:
        n = count if n is None else jnp.minimum(n, count)
    return Structure(t, s, max(lows), min(highs), n)


def conjuncts(mask: Mask) -> list[Mask]:
    """The masks that are joined by ``&``."""
    return [*conjuncts(mask.a), *conjuncts(mask.b)] if isinstance(mask, both) else [mask]


def shift_of(problem: Problem) -> int | None:
    """o, where query number i stands at the position of key i + o; None where that is not known."""
    q, k = problem.positions.q, problem.positions.k
    if not (isinstance(q, Range) and isinstance(k, Range)):
        return None
    if not all(isinstance(x.start, int | np.integer) for x in (q, k)):
        return None
    return int(q.start) - int(k.start)
