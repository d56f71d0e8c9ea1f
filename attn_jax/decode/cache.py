"""Caches for decoding: keys and values of what was decoded, with their positions."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp

from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import lengths
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.tiles import Positions, Range
from attn_jax.functional.value import Array, Value


class KeyValues(Value):
    """Keys and values of one layer, in arrays that have room for `size` positions.

    Args:
      keys: `*b s g d`.
      values: `*b s g e`.
      length: how many positions are filled, an integer, possibly traced; the same for all rows.

    >>> cache = KeyValues.empty((2,), 4, 1, 8).append(jnp.ones((2, 3, 1, 8)), jnp.ones((2, 3, 1, 8)))
    >>> int(cache.length), cache.keys.shape
    (3, (2, 4, 1, 8))
    """

    keys: Array
    values: Array
    length: Array

    @classmethod
    def empty(
        cls, batch: tuple[int, ...], size: int, heads: int, depth: int, dtype: Any = jnp.float32
    ) -> Self:
        """A cache of nothing: batch axes, room for `size` positions, g heads of one depth."""
        zeros = jnp.zeros((*batch, size, heads, depth), dtype)
        return cls(zeros, zeros, jnp.zeros((), jnp.int32))

    def append(self, k: Array, v: Array) -> Self:
        """With t more keys and values, `*b t g d`; there must be room for them."""

        def write(into: Array, new: Array) -> Array:
            new = new.astype(into.dtype)
            return jax.lax.dynamic_update_slice_in_dim(into, new, self.length, axis=-3)

        length = self.length + k.shape[-3]
        return self.replace(keys=write(self.keys, k), values=write(self.values, v), length=length)

    @property
    def filled(self) -> Mask:
        """The mask of positions that hold a key."""
        return lengths(self.length)

    def positions(self, t: int) -> Positions:
        """Where the newest t queries and all keys stand."""
        return Positions(Range(self.length - t, t), Range(0, self.keys.shape[-3]))


class Cache(Value):
    """All that an encoder-decoder needs to decode the next token of k hypotheses a sentence.

    Args:
      layers: a :class:`KeyValues` per decoder layer, of batch `b k`.
      memories: prepared keys and values of the memory per decoder layer, of batch `b`.
      memory_mask: which of the memory may be looked at.
    """

    layers: tuple[KeyValues, ...]
    memories: tuple[tuple[PreparedKeys, Array], ...]
    memory_mask: Mask

    @classmethod
    def start(cls, model: Any, source: Array, *, beams: int, length: int) -> Self:
        """Encodes the source, with room for `length` target tokens of `beams` hypotheses each.

        Args:
          model: a model with ``encode``, ``memory_mask`` and a ``decoder`` of blocks.
          source: `b s`, token ids.
        """
        memory = model.encode(source)
        batch = (source.shape[0], beams)
        layers, memories = [], []
        for block in model.decoder:
            attention = block.self_attention
            layers.append(
                KeyValues.empty(batch, length, attention.groups, attention.depth, memory.dtype)
            )
            memories.append(block.cross_attention.project(memory))
        return cls(tuple(layers), tuple(memories), model.memory_mask(source))

    @property
    def length(self) -> Array:
        """How many tokens have been decoded."""
        return self.layers[0].length

    def select(self, parents: Array) -> Self:
        """The cache of hypotheses that continue `parents`, `b k`: number j of a row its parents[j]."""

        def reorder(x: Array) -> Array:
            return jnp.take_along_axis(x, parents[..., None, None, None], axis=1)

        layers = tuple(
            layer.replace(keys=reorder(layer.keys), values=reorder(layer.values))
            for layer in self.layers
        )
        return self.replace(layers=layers)
