"""Longformer: BERT through a sliding window, and a few tokens that see and are seen by all."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
from flax import nnx

from attn_jax.functional import patterns
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything
from attn_jax.functional.rule import Rule
from attn_jax.models.bert import Bert, BertConfig, Head, bert_blocks
from attn_jax.modules.blocks import BlockOptions, EncoderBlock
from attn_jax.modules.global_attention import GlobalAttention
from attn_jax.modules.watching import attention_maps

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
        attention = GlobalAttention(blocks, rule=rule & near, rngs=rngs)
        return EncoderBlock(blocks, attention=attention, rngs=rngs)

    def __call__(
        self,
        ids: Array,
        segments: Array | None = None,
        *,
        is_global: Array | None = None,
        mask: Mask = everything(),  # noqa: B008
        rng: Array | None = None,
    ) -> Any:
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
        maps = attention_maps(
            type(self).hidden_states, self, ids, segments, is_global=is_global, mask=mask
        )
        if is_global is None:
            return maps
        return tuple(near + far for near, far in zip(maps[::2], maps[1::2], strict=True))
