"""Dropout drawn by an integer hash of where an entry stands, so that it depends on nothing else.

A draw is a function of the random key and of the indices of the entry in the whole, unpermuted array:
tiles, shards, padding and the order of evaluation do not change it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.functional.value import Array, Value

_MULTIPLIERS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], np.uint32)


class Dropout(Value):
    r"""Zeroes entries with probability r and divides the rest by 1 − r, :math:`x_n b_n / (1 - r)`.

    The draws :math:`b_n` are 1 with probability 1 − r, and 0 otherwise.

    Args:
      rate: r, a Python number in [0, 1).
      rng: a typed random key (``jax.random.key``): rows of the batch then draw by their number. Or
        one key per row, `*b`: each row then draws by its own key alone, so that an example draws
        the same whatever batch it is in.
      site: which of several independent draws, an integer; :meth:`at` sets it.

    Shapes:
      weights: `*b h t s`.  features: `*b t m`.  Returns are of the same shape and dtype.

    Raises:
      ValueError: the rate is out of range.
      TypeError: `rng` is not a typed key.

    Reference: Srivastava et al. (2014).

    >>> Dropout(0.5, jax.random.key(0)).on_features(jnp.ones((1, 2, 4))).sum() % 2
    Array(0., dtype=float32)
    """

    rate: float
    rng: Array
    site: Any = 0

    def __post_init__(self) -> None:
        if not isinstance(self.rate, int | float | np.floating) or not 0 <= self.rate < 1:
            raise ValueError(f"Dropout(rate) must be a number in [0, 1), got {self.rate!r}")
        object.__setattr__(self, "rate", float(self.rate))
        typed = isinstance(self.rng, jax.Array)
        if not typed or not jax.dtypes.issubdtype(self.rng.dtype, jax.dtypes.prng_key):
            given = self.rng.dtype if typed else type(self.rng).__name__
            raise TypeError(f"Dropout(rng) must be a typed key, jax.random.key(seed); got {given}")
        super().__post_init__()

    def at(self, site: Any, rate: float | None = None) -> Dropout:
        """The same source with an independent draw for another place (a layer, a sublayer).

        Args:
          site: an integer, possibly traced; sites nest, ``dropout.at(2).at(0)``.
          rate: the rate at that place; the same rate when left out.
        """
        number = _mix(_spread(self.site, 0) ^ _spread(site, 3))
        return self.replace(site=number, rate=self.rate if rate is None else rate)

    def check(self, batch: tuple[int, ...]) -> None:
        """Raises ValueError unless there is one key, or one per batch row."""
        if self.rng.shape not in ((), batch):
            raise ValueError(
                f"Dropout(rng) must be one key or one per batch row, {batch}; got shape "
                f"{self.rng.shape}"
            )

    def on_weights(self, weights: Array, heads: Any, queries: Any, keys: Any) -> Array:
        """Dropout on attention weights `*b h t s`, or a tile of them.

        Args:
          weights: `*b h t s`.
          heads, queries, keys: the indices of this tile in the whole array, `h`, `t`, `s`, integers.

        Returns:
          `*b h t s`, of the weights' dtype.
        """
        rows = self._rows(weights.shape[:-3])[..., None, None, None]
        per_query = _mix(
            _mix(rows ^ _spread(heads, 0)[:, None, None]) ^ _spread(queries, 1)[:, None]
        )
        return self._drop(weights, _mix(per_query ^ _spread(keys, 2)))

    def on_features(self, x: Array) -> Array:
        """Dropout on features `*b t m`, drawn by (row, position in the array, feature)."""
        self.check(x.shape[:-2])
        rows = self._rows(x.shape[:-2])[..., None, None]
        per_position = _mix(rows ^ _spread(jnp.arange(x.shape[-2]), 3)[:, None])
        return self._drop(x, _mix(per_position ^ _spread(jnp.arange(x.shape[-1]), 0)))

    def _rows(self, batch: tuple[int, ...]) -> Array:
        """A 32-bit word per batch row."""
        words = jax.random.key_data(self.rng).astype(jnp.uint32)
        seed = _mix(words[..., 0] ^ _MULTIPLIERS[0])
        for n in range(1, words.shape[-1]):
            seed = _mix(seed ^ words[..., n])
        seed = _mix(seed ^ _spread(self.site, 2))
        if self.rng.shape == batch:  # also where rows are mapped over, each with its own key
            return seed
        size = 1
        for n in batch:
            size *= n
        return _mix(seed ^ _spread(jnp.arange(size), 1)).reshape(batch)

    def _drop(self, x: Array, bits: Array) -> Array:
        keep = bits >= jnp.uint32(min(round(self.rate * 2**32), 2**32 - 1))
        return jnp.where(keep, x * (1 / (1 - self.rate)), 0).astype(x.dtype)


def _spread(index: Any, which: int) -> Array:
    """Consecutive integers far apart in 32 bits: (n + 1) times an odd constant."""
    return (jnp.asarray(index).astype(jnp.uint32) + 1) * _MULTIPLIERS[which]


def _mix(x: Array) -> Array:
    """A bijection of 32-bit words under which every bit of x moves every bit of the result."""
    x = x ^ (x >> 16)
    x = x * jnp.uint32(0x7FEB352D)
    x = x ^ (x >> 15)
    x = x * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
