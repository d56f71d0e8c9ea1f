"""Encoder and decoder blocks: attention and a feed-forward network, each with its residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.modules.attention import MultiHeadAttention
from attn_jax.modules.block_options import ACTIVATIONS, BlockOptions
from attn_jax.modules.sublayers import FeedForward, Residual

__all__ = ["ACTIVATIONS", "BlockOptions", "DecoderBlock", "EncoderBlock", "FeedForward", "Residual"]
Array = jax.Array


class EncoderBlock(nnx.Module):
    """Self-attention, then a feed-forward network.

    Args:
      options: sizes, order of normalisation, dropout.
      rule: how the self-attention's queries meet keys.
      attention: what looks, where it is no ordinary attention of these sizes under that rule.
      rngs: where the initial parameters come from.

    Reference: Vaswani et al. (2017), section 3.1.

    >>> import jax.numpy as jnp
    >>> block = EncoderBlock(BlockOptions(width=8, hidden=16, heads=2), rngs=nnx.Rngs(0))
    >>> jax.eval_shape(block, jnp.ones((1, 3, 8))).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        options: BlockOptions,
        *,
        rule: Rule = Rule(),  # noqa: B008
        attention: MultiHeadAttention | None = None,
        rngs: nnx.Rngs,
    ) -> None:
        self.self_attention = options.attention(rule, rngs) if attention is None else attention
        self.feed_forward = FeedForward(options, rngs=rngs)
        self.options = options
        self.attention_residual = Residual(options, rngs=rngs)
        self.feed_forward_residual = Residual(options, rngs=rngs)

    def __call__(
        self,
        x: Array,
        *,
        mask: Mask = everything(),  # noqa: B008
        noise: Dropout | None = None,
    ) -> Array:
        """`*b t m` to `*b t m`; `mask` joins the rule's."""
        return self.around(
            x, lambda y, noise: self.self_attention(y, mask=mask, noise=noise), noise
        )

    def around(
        self,
        x: Array,
        attention: Callable[[Array, Dropout | None], Array],
        noise: Dropout | None = None,
    ) -> Array:
        """The block around an attention that is called in its own way: `*b t m` to `*b t m`."""
        n = [None if noise is None else noise.at(i) for i in range(4)]

        def block(x: Array) -> Array:
            x = self.attention_residual(x, lambda y: attention(y, n[0]), n[1])
            return self.feed_forward_residual(x, lambda y: self.feed_forward(y, noise=n[2]), n[3])

        return self.options.saving(block)(x)

    def step(
        self,
        x: Array,
        cache: Any,
        *,
        mask: Mask = everything(),  # noqa: B008
    ) -> tuple[Array, Any]:
        """The newest tokens, with all before them in a cache.

        Args:
          x: `*b t m`.
          cache: this layer's keys and values so far.
          mask: joins the rule's; over all that the cache has room for.

        Returns:
          `*b t m`, and the longer cache.
        """

        def look_back(y: Array) -> Array:
            nonlocal cache
            y, cache = self.self_attention.step(y, cache, mask=mask)
            return y

        x = self.attention_residual(x, look_back)
        return self.feed_forward_residual(x, self.feed_forward), cache


class DecoderBlock(nnx.Module):
    """Self-attention, attention to a memory, then a feed-forward network.

    Args:
      options: sizes, order of normalisation, dropout.
      rule: how the self-attention's queries meet keys; ``Rule(mask=masks.causal())`` to decode.
      cross_rule: how queries meet the memory's keys.
      rngs: where the initial parameters come from.

    Reference: Vaswani et al. (2017), section 3.1.

    >>> import jax.numpy as jnp
    >>> block = DecoderBlock(BlockOptions(width=8, hidden=16, heads=2), rngs=nnx.Rngs(0))
    >>> jax.eval_shape(block, jnp.ones((1, 3, 8)), jnp.ones((1, 5, 8))).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        options: BlockOptions,
        *,
        rule: Rule = Rule(),  # noqa: B008
        cross_rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        self.self_attention = options.attention(rule, rngs)
        self.cross_attention = options.attention(cross_rule, rngs, to_memory=True)
        self.feed_forward = FeedForward(options, rngs=rngs)
        self.options = options
        self.self_residual = Residual(options, rngs=rngs)
        self.cross_residual = Residual(options, rngs=rngs)
        self.feed_forward_residual = Residual(options, rngs=rngs)

    def __call__(
        self,
        x: Array,
        memory: Array,
        *,
        mask: Mask = everything(),  # noqa: B008
        memory_mask: Mask = everything(),  # noqa: B008
        noise: Dropout | None = None,
    ) -> Array:
        """`*b t m` to `*b t m`, looking at itself, and at a memory `*b s m`, through masks."""
        n = [None if noise is None else noise.at(i) for i in range(6)]

        def block(x: Array) -> Array:
            x = self.self_residual(x, lambda y: self.self_attention(y, mask=mask, noise=n[0]), n[1])
            x = self.cross_residual(
                x,
                lambda y: self.cross_attention(y, memory, mask=memory_mask, noise=n[2]),
                n[3],
            )
            return self.feed_forward_residual(x, lambda y: self.feed_forward(y, noise=n[4]), n[5])

        return self.options.saving(block)(x)

    def step(
        self,
        x: Array,
        cache: Any,
        memory: tuple[PreparedKeys, Array],
        *,
        memory_mask: Mask = everything(),  # noqa: B008
    ) -> tuple[Array, Any]:
        """One more token for each of k hypotheses of each of b sentences.

        The hypotheses of a sentence share its memory: to the memory they are k queries.

        Args:
          x: `b k 1 m`.
          cache: this layer's keys and values so far, of batch `b k`.
          memory: keys and values of `b s m`, from ``cross_attention.project``.
          memory_mask: which memory may be looked at, as for a batch of b.

        Returns:
          `b k 1 m`, and the longer cache.
        """

        def look_back(y: Array) -> Array:
            nonlocal cache
            y, cache = self.self_attention.step(y, cache)
            return y

        def look_across(y: Array) -> Array:
            return self.cross_attention.look(y[..., 0, :], *memory, mask=memory_mask)[..., None, :]

        x = self.self_residual(x, look_back)
        x = self.cross_residual(x, look_across)
        return self.feed_forward_residual(x, self.feed_forward), cache
