"""Encoder and decoder blocks: attention and a feed-forward network, each with its residual."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.modules.attention import MultiHeadAttention, initializer
from attn_jax.modules.watching import is_watched

Array = jax.Array
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "gelu_sigmoid": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "silu": jax.nn.silu,
}
_SAVED: dict[str, Any] = {
    "all": jax.checkpoint_policies.everything_saveable,
    "products": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "inputs": jax.checkpoint_policies.nothing_saveable,
}


@dataclasses.dataclass(frozen=True)
class BlockOptions:
    """What the blocks of a Transformer share.

    Args:
      width: m, of the residual stream.
      hidden: f, of the feed-forward network.
      heads: h, query heads.
      key_value_heads: g, key and value heads; h where None.
      norm: "post" normalises after the residual sum, "pre" before the sublayer.
      activation: of the feed-forward network: "relu", "gelu" (exact), "gelu_tanh" and
        "gelu_sigmoid" (its approximations, GPT-2's and ImageGPT's) or "silu".
      epsilon: added to the variance in each layer normalisation.
      centred: whether layer normalisation subtracts the mean and adds a bias; else it divides by
        the root mean square (Zhang and Sennrich 2019).
      dropout: rate on the output of each sublayer.
      attention_dropout: rate on attention weights.
      activation_dropout: rate on the feed-forward network's hidden units.
      rotary: whether self-attention rotates queries and keys by their positions.
      saved: what a block keeps of the forward pass for the backward pass: "all"; "products", of
        matrices with parameters; or "inputs", its own. What is not kept is computed again.
      scanned: whether a Transformer's blocks are compiled as one, see
        :func:`attn_jax.modules.layers.through`.

    Raises:
      ValueError: `norm`, `activation` or `saved` is none of those.

    References: post: Vaswani et al. (2017), section 3.1; pre: Xiong et al. (2020); gelu: Hendrycks
    and Gimpel (2016).
    """

    width: int = 512
    hidden: int = 2048
    heads: int = 8
    key_value_heads: int | None = None
    norm: Literal["pre", "post"] = "post"
    activation: str = "relu"
    epsilon: float = 1e-6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    centred: bool = True
    rotary: bool = False
    saved: Literal["all", "products", "inputs"] = "all"
    scanned: bool = False

    def __post_init__(self) -> None:
        if self.norm not in ("pre", "post"):
            raise ValueError(f'norm must be "pre" or "post", got {self.norm!r}')
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}"
            )
        if self.saved not in _SAVED:
            raise ValueError(f"saved must be one of {', '.join(_SAVED)}, got {self.saved!r}")

    def attention(
        self, rule: Rule, rngs: nnx.Rngs, *, to_memory: bool = False
    ) -> MultiHeadAttention:
        """Attention of these sizes, to itself or to a memory, which stands in no order with it."""
        return MultiHeadAttention(
            self.width,
            self.heads,
            key_value_heads=self.key_value_heads,
            rule=rule,
            dropout=self.attention_dropout,
            turned=self.rotary and not to_memory,
            rngs=rngs,
        )

    def saving(self, block: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """The same block, which keeps for the backward pass what it is to keep.

        All, where it is watched: what is computed twice cannot be looked at from outside.
        """
        if self.saved == "all" or is_watched():
            return block
        return jax.checkpoint(block, policy=_SAVED[self.saved])

    def layer_norm(self, rngs: nnx.Rngs) -> nnx.LayerNorm | nnx.RMSNorm:
        """Layer normalisation of these sizes (Ba, Kiros and Hinton 2016)."""
        norm = nnx.LayerNorm if self.centred else nnx.RMSNorm
        return norm(self.width, epsilon=self.epsilon, rngs=rngs)


class FeedForward(nnx.Module):
    r"""Two linear maps with an activation between, :math:`W_2\, a(W_1 x + b_1) + b_2`.

    Each position by itself.

    Reference: Vaswani et al. (2017), equation 2.

    >>> import jax.numpy as jnp
    >>> FeedForward(BlockOptions(width=8, hidden=16), rngs=nnx.Rngs(0))(jnp.ones((2, 8))).shape
    (2, 8)
    """

    def __init__(self, options: BlockOptions, *, rngs: nnx.Rngs) -> None:
        width, hidden = options.width, options.hidden
        self.inner = nnx.Linear(width, hidden, kernel_init=initializer, rngs=rngs)
        self.outer = nnx.Linear(hidden, width, kernel_init=initializer, rngs=rngs)
        self.activation = options.activation
        self.dropout = options.activation_dropout

    def __call__(self, x: Array, *, noise: Dropout | None = None) -> Array:
        """`*b t m` to `*b t m`."""
        hidden = ACTIVATIONS[self.activation](self.inner(x))
        if noise is not None and self.dropout:
            hidden = noise.at(0, self.dropout).on_features(hidden)
        return self.outer(hidden)


class Residual(nnx.Module):
    """A sublayer's normalisation, dropout and residual sum, in pre- or post-norm order."""

    def __init__(self, options: BlockOptions, *, rngs: nnx.Rngs) -> None:
        self.norm = options.layer_norm(rngs)
        self.first = options.norm == "pre"
        self.dropout = options.dropout

    def __call__(
        self, x: Array, sublayer: Callable[[Array], Array], noise: Dropout | None = None
    ) -> Array:
        """``x + sublayer(norm(x))`` or ``norm(x + sublayer(x))``."""
        y = sublayer(self.norm(x) if self.first else x)
        if noise is not None and self.dropout:
            y = noise.at(0, self.dropout).on_features(y)
        return x + y if self.first else self.norm(x + y)


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
        memory_mask: Mask = everything(),  # noqa: B008
        noise: Dropout | None = None,
    ) -> Array:
        """`*b t m` to `*b t m`, looking at a memory `*b s m` through `memory_mask`."""
        n = [None if noise is None else noise.at(i) for i in range(6)]

        def block(x: Array) -> Array:
            x = self.self_residual(x, lambda y: self.self_attention(y, noise=n[0]), n[1])
            x = self.cross_residual(
                x,
                lambda y: self.cross_attention(y, memory, mask=memory_mask, noise=n[2]),
                n[3],
            )
            return self.feed_forward_residual(x, lambda y: self.feed_forward(y, noise=n[4]), n[5])

        return self.options.saving(block)(x)

    def cross_weights(
        self,
        x: Array,
        memory: Array,
        *,
        memory_mask: Mask = everything(),  # noqa: B008
    ) -> Array:
        """Where the attention to the memory looks in a call with these arguments: `*b h t s`."""
        x = self.self_residual(x, self.self_attention)
        x = self.cross_residual.norm(x) if self.cross_residual.first else x
        return self.cross_attention.weights(x, memory, mask=memory_mask)

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
