"""Token embeddings, tied to the output where wanted, with positions added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.positions import sinusoidal

Array = jax.Array


class TokenEmbedding(nnx.Module):
    r"""A vector for each token, :math:`\sqrt{m}\, E_{id}`; the same table gives logits, :math:`x E^T`.

    The table starts at variance 1/m, so that embeddings start at variance 1 and logits of
    normalised states too.

    Args:
      vocabulary: v, the number of tokens.
      width: m.
      scaled: whether embeddings are multiplied by the root of m, as by Vaswani et al.; BERT's and
        GPT-2's are the rows of the table.
      rngs: where the initial table comes from.

    References: Vaswani et al. (2017), section 3.4; one table for both: Press and Wolf (2017).

    >>> embedding = TokenEmbedding(11, 4, rngs=nnx.Rngs(0))
    >>> embedding(jnp.array([[1, 2]])).shape, embedding.logits(jnp.ones((2, 4))).shape
    ((1, 2, 4), (2, 11))
    """

    def __init__(self, vocabulary: int, width: int, *, scaled: bool = True, rngs: nnx.Rngs) -> None:
        table = jax.random.normal(rngs.params(), (vocabulary, width)) * width**-0.5
        self.table = nnx.Param(table)
        self.scaled = scaled

    def __call__(self, ids: Array) -> Array:
        """Token ids, `…` integers, to `… m`."""
        table = self.table[...]
        return table[ids] * table.shape[-1] ** 0.5 if self.scaled else table[ids]

    def logits(self, x: Array) -> Array:
        """States `… m` to logits `… v`, float32 or wider."""
        table = self.table[...]
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        return jnp.einsum("...m,vm->...v", x, table.astype(x.dtype), preferred_element_type=dtype)


class LearnedEmbedding(nnx.Module):
    """A learned vector for each of a few integers: a position, or a segment.

    Args:
      size: how many there are.
      width: m.
      rngs: where the initial table comes from.

    References: positions: Gehring et al. (2017), section 3.1; segments: Devlin et al. (2019), figure 2.

    >>> LearnedEmbedding(16, 4, rngs=nnx.Rngs(0))(jnp.arange(3)).shape
    (3, 4)
    """

    def __init__(self, size: int, width: int, *, rngs: nnx.Rngs) -> None:
        self.table = nnx.Param(0.02 * jax.random.normal(rngs.params(), (size, width)))

    @property
    def size(self) -> int:
        """How many vectors there are."""
        return self.table.shape[0]

    def __call__(self, ids: Array) -> Array:
        """Integers below `size`, `…`, to `… m`."""
        return self.table[...][ids]


class GridEmbedding(nnx.Module):
    """A learned vector for each coordinate of a position in a grid, added up.

    Args:
      sizes: of the axes; the last coordinate counts fastest.
      width: m.
      rngs: where the initial tables come from.

    Reference: Child et al. (2019), section 5.3.

    >>> GridEmbedding((2, 3), 4, rngs=nnx.Rngs(0))(jnp.arange(6)).shape
    (6, 4)
    """

    def __init__(self, sizes: Sequence[int], width: int, *, rngs: nnx.Rngs) -> None:
        self.axes = nnx.List(LearnedEmbedding(size, width, rngs=rngs) for size in sizes)

    @property
    def size(self) -> int:
        """How many positions there are."""
        return math.prod(axis.size for axis in self.axes)

    def __call__(self, positions: Array) -> Array:
        """Positions below `size`, `…`, to `… m`."""
        total: Any = 0
        for axis in reversed(self.axes):
            total = total + axis(positions % axis.size)
            positions = positions // axis.size
        return total


def add_sinusoids(x: Array, positions: Array) -> Array:
    """Embeddings `… t m` plus the sinusoids of their positions, `t` to `… t`, of their own dtype."""
    return x + sinusoidal(positions, x.shape[-1]).astype(x.dtype)


def count_real(ids: Array, padding: int) -> Array:
    """RoBERTa's positions: padding + 1, padding + 2, … over real tokens; padding stays `padding`.

    Args:
      ids: `… t`, integers.
      padding: the id that is not real.

    Returns:
      `… t`, integers.

    >>> count_real(jnp.array([[5, 7, 1, 6, 1]]), 1)
    Array([[2, 3, 1, 4, 1]], dtype=int32)
    """
    real = (ids != padding).astype(jnp.int32)
    return padding + real * jnp.cumsum(real, axis=-1, dtype=jnp.int32)
