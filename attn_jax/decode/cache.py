"""Caches for decoding: keys and values of what was decoded, with their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp

from attn_jax.decode.hypotheses import take
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import lengths, valid
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.tiles import Positions, Range
from attn_jax.functional.value import Array, Value


class KeyValues(Value):
    """Keys and values of one layer, in arrays that have room for `size` positions.

    They are kept with heads before positions, as products read them: turned round at every step,
    they would cost more than the products.

    Args:
      keys_by_head: `*b g s d`.
      values_by_head: `*b g s e`.
      length: how many positions are filled, an integer, possibly traced; the same for all rows.

    >>> cache = KeyValues.empty((2,), 4, 1, 8).append(jnp.ones((2, 3, 1, 8)), jnp.ones((2, 3, 1, 8)))
    >>> int(cache.length), cache.keys.shape
    (3, (2, 4, 1, 8))
    """

    keys_by_head: Array
    values_by_head: Array
    length: Array

    @classmethod
    def empty(
        cls, batch: tuple[int, ...], size: int, heads: int, depth: int, dtype: Any = jnp.float32
    ) -> Self:
        """A cache of nothing: batch axes, room for `size` positions, g heads of one depth."""
        zeros = jnp.zeros((*batch, heads, size, depth), dtype)
        return cls(zeros, zeros, jnp.zeros((), jnp.int32))

    @property
    def size(self) -> int:
        """How many positions there is room for."""
        return self.keys_by_head.shape[-2]

    @property
    def keys(self) -> Array:
        """`*b s g d`."""
        return jnp.swapaxes(self.keys_by_head, -2, -3)

    @property
    def values(self) -> Array:
        """`*b s g e`."""
        return jnp.swapaxes(self.values_by_head, -2, -3)

    def append(self, k: Array, v: Array) -> Self:
        """With t more keys and values, `*b t g d`; there must be room for them."""

        def write(into: Array, new: Array) -> Array:
            new = jnp.swapaxes(new, -2, -3).astype(into.dtype)
            return jax.lax.dynamic_update_slice_in_dim(into, new, self.length, axis=-2)

        return type(self)(
            write(self.keys_by_head, k), write(self.values_by_head, v), self.length + k.shape[-3]
        )

    def spread(self, beams: int) -> Self:
        """Of a cache of batch `b 1`, one of `b k`, whose k hypotheses are alike."""
        return self._each(lambda x: jnp.broadcast_to(x, (x.shape[0], beams, *x.shape[2:])))

    def select(self, parents: Array) -> Self:
        """Of a cache of batch `b k`, that of hypotheses that continue `parents`, `b k`."""
        return self._each(lambda x: take(x, parents))

    @property
    def filled(self) -> Mask:
        """The mask of positions that hold a key."""
        return lengths(self.length)

    def positions(self, t: int) -> Positions:
        """Where the newest t queries and all keys stand."""
        return Positions(Range(self.length - t, t), Range(0, self.size))

    def _each(self, change: Callable[[Array], Array]) -> Self:
        return type(self)(change(self.keys_by_head), change(self.values_by_head), self.length)


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
        return self.replace(layers=tuple(layer.select(parents) for layer in self.layers))


class Continuation(Value):
    """All that a decoder-only model needs to continue k hypotheses of each of b prompts.

    Args:
      layers: a :class:`KeyValues` per layer, of batch `b k`.
      real: `b s`, over all that there is room for: False where padding precedes a prompt.
    """

    layers: tuple[KeyValues, ...]
    real: Array

    @classmethod
    def start(
        cls,
        model: Any,
        prompt: Array,
        *,
        beams: int,
        length: int,
        real: Array | None = None,
    ) -> Self:
        """Reads all of the prompts but their last tokens, which a search feeds first.

        Args:
          model: a model with ``step`` and ``layers`` of blocks, such as ``attn_jax.models.GPT``.
          prompt: `b t`, token ids, t at least 1; shorter prompts are padded on the left.
          beams: k; the hypotheses of a row share what was read of its prompt.
          length: how many more tokens there is room for.
          real: `b t`, False for padding; all are real where None.

        Raises:
          ValueError: the shapes do not fit, or the model has fewer positions.
        """
        real = jnp.ones(prompt.shape, bool) if real is None else jnp.asarray(real)
        if prompt.ndim != 2 or not prompt.shape[1] or real.shape != prompt.shape:
            raise ValueError(
                "expected prompts b t, of one token at least, and real of the same shape; got "
                f"{prompt.shape} and {real.shape}"
            )
        rows, size = prompt.shape[0], prompt.shape[1] - 1 + length
        if model.longest is not None and size > model.longest:
            raise ValueError(
                f"a prompt of {prompt.shape[1]} and {length} more tokens, the last of which is not "
                f"fed, need {size} positions; the model has {model.longest}"
            )
        room = jnp.ones((rows, length - 1), bool)
        layers = []
        for block in model.layers:
            attention = block.self_attention
            dtype = attention.key.kernel.dtype
            layers.append(
                KeyValues.empty((rows, 1), size, attention.groups, attention.depth, dtype)
            )
        cache = cls(tuple(layers), jnp.concatenate([real != 0, room], axis=1))
        if prompt.shape[1] > 1:
            _, cache = model.step(prompt[:, None, :-1], cache)
        return cache.replace(layers=tuple(layer.spread(beams) for layer in cache.layers))

    @property
    def length(self) -> Array:
        """How many tokens have been read, padding included."""
        return self.layers[0].length

    @property
    def mask(self) -> Mask:
        """Which places may be looked at: those that are not padding."""
        return valid(self.real[:, None])

    def positions(self, t: int) -> Array:
        """Where the next t tokens stand in their rows, padding not counted: `b 1 t`."""
        padding = jnp.sum(~self.real, axis=-1)[:, None, None]
        return jnp.maximum(self.length + jnp.arange(t) - padding, 0)

    def select(self, parents: Array) -> Self:
        """The cache of hypotheses that continue `parents`, `b k`: number j of a row its parents[j]."""
        return self.replace(layers=tuple(layer.select(parents) for layer in self.layers))
