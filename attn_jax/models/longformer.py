"""Longformer: BERT through a sliding window, and a few tokens that see and are seen by all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import jax
from flax import nnx

from attn_jax.backends.dispatch import attention_weights
from attn_jax.functional import patterns
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything, global_tokens
from attn_jax.functional.rule import Rule
from attn_jax.models.bert import Bert, BertConfig, Head, bert_blocks
from attn_jax.modules.attention import MultiHeadAttention, initializer, split_heads
from attn_jax.modules.blocks import BlockOptions, EncoderBlock
from attn_jax.modules.watching import look

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class LongformerConfig(BertConfig):
    """The sizes of a Longformer; the defaults are its base model, a RoBERTa otherwise.

    The other fields are those of :class:`attn_jax.models.BertConfig`.

    Args:
      windows: how many neighbours a token sees in each layer, both sides together.
    """

    vocabulary: int = 50_265
    positions: int = 4098
    segments: int = 1
    blocks: BlockOptions = dataclasses.field(default_factory=lambda: bert_blocks(768, 12, 1e-5))
    padding: int | None = 1
    windows: tuple[int, ...] = (512,) * 12


class Sight(NamedTuple):
    """What one part of the tokens looks with, `*b t h d` each, and at what."""

    q: Array
    k: Array
    v: Array
    rule: Rule


class LongformerAttention(MultiHeadAttention):
    r"""Attention in which global tokens have projections of their own.

    .. math:: y_i = \mathrm{attend}(x_i W^Q, x W^K, x W^V) \text{ of a token that is not global, }
              \mathrm{attend}(x_i W^{Q_g}, x W^{K_g}, x W^{V_g}) \text{ of one that is}

    Both are the module's rule, in whose mask all see global tokens, and these see all.

    Args:
      options: the sizes.
      rule: how queries meet keys; its mask says who sees whom where no token is global.
      rngs: where the initial parameters come from.

    Reference: Beltagy, Peters and Cohan (2020), section 3.1 (linear projections).
    """

    def __init__(self, options: BlockOptions, *, rule: Rule, rngs: nnx.Rngs) -> None:
        super().__init__(
            options.width, options.heads, rule=rule, dropout=options.attention_dropout, rngs=rngs
        )
        self.global_query, self.global_key, self.global_value = (
            nnx.Linear(options.width, options.width, kernel_init=initializer, rngs=rngs)
            for _ in range(3)
        )

    def __call__(  # type: ignore[override]
        self,
        x: Array,
        is_global: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
        noise: Dropout | None = None,
    ) -> Array:
        """`*b t m` to `*b t m`; `is_global`, `*b t` booleans, says which tokens are; None: none is."""
        y: Any = 0  # a token that is not of a part sees nothing in it, and gets exact zeros
        for i, (q, k, v, rule) in enumerate(self._parts(x, is_global, mask)):
            dropout = None if noise is None else noise.at(i, self.dropout)
            y = y + look(self, q, k, v, rule=rule, dropout=dropout, backend=self.backend)
        return self.out(y.reshape((*x.shape[:-1], -1)))

    def weights(  # type: ignore[override]
        self,
        x: Array,
        is_global: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
    ) -> Array:
        """Where each head of each query looks, `*b h t t`; arguments as for a call."""
        parts = self._parts(x, is_global, mask)
        return sum(attention_weights(q, k, rule=rule) for q, k, _, rule in parts)  # type: ignore[return-value]

    def _parts(self, x: Array, is_global: Array | None, mask: Mask) -> Iterator[Sight]:
        """Of the tokens that are not global, and of those that are."""

        def sight(rule: Rule, *projections: nnx.Linear) -> Sight:
            q, k, v = (split_heads(projection(x), self.heads) for projection in projections)
            return Sight(q, k, v, rule)

        near = self.query, self.key, self.value
        if is_global is None:
            yield sight(self.rule & mask, *near)
            return
        far = self.global_query, self.global_key, self.global_value
        reach = self.rule.mask | global_tokens(queries=is_global, keys=is_global)
        rule, those = self.rule.replace(mask=reach) & mask, global_tokens(queries=is_global)
        yield sight(rule & ~those, *near)
        yield sight(rule & those, *far)


class Longformer(Bert):
    """BERT for long documents: its attention takes time and memory linear in their length.

    Args:
      config: the sizes and the head.
      rule: the mechanism of all attention; the window of each layer joins it.
      rngs: where the initial parameters come from.

    Raises:
      ValueError: there is not one window of at least 1 for each layer.

    Reference: Beltagy, Peters and Cohan (2020).

    >>> import jax.numpy as jnp
    >>> blocks = BlockOptions(width=8, hidden=16, heads=2)
    >>> config = LongformerConfig(11, 9, 1, 2, blocks, windows=(2, 4))
    >>> make = lambda: Longformer(config, rngs=nnx.Rngs(0))
    >>> nnx.eval_shape(make).layers[1].self_attention.rule.mask
    window(2, 2)
    >>> ids, is_global = jnp.ones((1, 7), int), jnp.arange(7)[None] == 0
    >>> jax.eval_shape(lambda: make()(ids, is_global=is_global)).shape
    (1, 7, 8)
    """

    config: LongformerConfig

    def __init__(
        self,
        config: LongformerConfig = LongformerConfig(),
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        if len(config.windows) != config.layers or min(config.windows, default=1) < 1:
            raise ValueError(
                f"expected a window of at least 1 for each of {config.layers} layers, got windows "
                f"{config.windows}"
            )
        super().__init__(config, rule=rule, rngs=rngs)

    @classmethod
    def base(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """Longformer of 149 million parameters, for 4,096 tokens."""
        return cls(LongformerConfig(head=head), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def large(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """Longformer of 435 million parameters, for 4,096 tokens."""
        blocks = bert_blocks(1024, 16, 1e-5)
        config = LongformerConfig(layers=24, blocks=blocks, head=head, windows=(512,) * 24)
        return cls(config, rngs=rngs or nnx.Rngs(0))

    def _layer(self, number: int, rule: Rule, rngs: nnx.Rngs) -> EncoderBlock:
        blocks, near = self.config.blocks, patterns.longformer(self.config.windows[number])
        attention = LongformerAttention(blocks, rule=rule & near, rngs=rngs)
        return EncoderBlock(blocks, attention=attention, rngs=rngs)

    def __call__(
        self,
        ids: Array,
        segments: Array | None = None,
        *,
        is_global: Array | None = None,
        mask: Mask = everything(),  # noqa: B008
        rng: Array | None = None,
    ) -> Array:
        """What the head says; the states where there is none.

        Args:
          is_global: `b t`, booleans: which tokens see all and are seen by all, as the first for
            classification; None for none.
          ids, segments, mask, rng: as of :class:`attn_jax.models.Bert`, and so is what is returned.
        """
        states = self.hidden_states(ids, segments, is_global=is_global, mask=mask, rng=rng)
        return self._said(states[-1], rng)

    def hidden_states(
        self,
        ids: Array,
        segments: Array | None = None,
        *,
        is_global: Array | None = None,
        mask: Mask = everything(),  # noqa: B008
        rng: Array | None = None,
    ) -> tuple[Array, ...]:
        """What each block is given, and what the last one gives: layers + 1 times `b t m`."""

        def call(layer: Any, x: Array, noise: Dropout | None) -> Array:
            def attention(y: Array, noise: Dropout | None) -> Array:
                return layer.self_attention(y, is_global, mask=mask, noise=noise)

            return layer.around(x, attention, noise)

        return self._states(ids, segments, rng, call)

    def attention_maps(
        self,
        ids: Array,
        segments: Array | None = None,
        *,
        is_global: Array | None = None,
        mask: Mask = everything(),  # noqa: B008
    ) -> tuple[Array, ...]:
        """Where each layer looks, `b h t t` each; without dropout."""
        states = self.hidden_states(ids, segments, is_global=is_global, mask=mask)
        return tuple(
            layer.self_attention.weights(x, is_global, mask=mask)
            for layer, x in zip(self.layers, states)
        )
