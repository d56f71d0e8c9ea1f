"""BERT and RoBERTa: a stack of blocks that see both ways, and the heads that are put on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything
from attn_jax.functional.rule import Rule
from attn_jax.modules.blocks import BlockOptions, EncoderBlock
from attn_jax.modules.embeddings import LearnedEmbedding, TokenEmbedding, count_real
from attn_jax.modules.heads import Head, Headed
from attn_jax.modules.layers import states_between
from attn_jax.modules.watching import attention_maps

Array = jax.Array


def bert_blocks(width: int, heads: int, epsilon: float = 1e-12) -> BlockOptions:
    """Blocks of a BERT: a hidden width of four times the model's, the exact gelu, post-norm."""
    return BlockOptions(
        width=width,
        hidden=4 * width,
        heads=heads,
        activation="gelu",
        epsilon=epsilon,
        attention_dropout=0.1,
    )


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT; the defaults are its base model.

    Args:
      vocabulary: v.
      positions: how many positions have an embedding.
      segments: how many segments have one.
      layers: how many blocks.
      blocks: what the blocks are made of.
      padding: None: positions are 0, 1, …. An id: RoBERTa's, padding + 1, … over the tokens that are
        not this id, which itself has the position `padding`.
      head: what a call returns, one of ``attn_jax.modules.heads.Head``; None for the states.
      labels: l, of a classification.
      tied: whether the embedding's table gives the logits of a masked language model.
    """

    vocabulary: int = 30_522
    positions: int = 512
    segments: int = 2
    layers: int = 12
    blocks: BlockOptions = dataclasses.field(default_factory=lambda: bert_blocks(768, 12))
    padding: int | None = None
    head: Head | None = None
    labels: int = 2
    tied: bool = True


class Bert(Headed):
    """An encoder of tokens with learned positions and segments, normalised after each sublayer.

    Args:
      config: the sizes and the head.
      rule: the mechanism of all attention.
      rngs: where the initial parameters come from.

    Reference: Devlin et al. (2019); Liu et al. (2019) for RoBERTa.

    >>> blocks = BlockOptions(width=8, hidden=16, heads=2, activation="gelu")
    >>> make = lambda: Bert(BertConfig(11, 6, 2, 1, blocks), rngs=nnx.Rngs(0))
    >>> jax.eval_shape(lambda ids: make()(ids), jnp.array([[5, 6, 2]])).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        config: BertConfig = BertConfig(),
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        blocks = config.blocks
        self.config = config
        self.embedding = TokenEmbedding(config.vocabulary, blocks.width, scaled=False, rngs=rngs)
        self.positions = nnx.data(LearnedEmbedding(config.positions, blocks.width, rngs=rngs))
        self.segments = LearnedEmbedding(config.segments, blocks.width, rngs=rngs)
        self.norm = blocks.layer_norm(rngs)
        self.layers = nnx.List(self._layer(i, rule, rngs) for i in range(config.layers))
        self.set_head(config.head, labels=config.labels, rngs=rngs)

    @classmethod
    def base(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """BERT of 110 million parameters; ``nnx.eval_shape(Bert.base)`` allocates none of them."""
        return cls(BertConfig(head=head), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def large(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """BERT of 335 million parameters."""
        config = BertConfig(layers=24, blocks=bert_blocks(1024, 16), head=head)
        return cls(config, rngs=rngs or nnx.Rngs(0))

    @classmethod
    def roberta_base(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """RoBERTa of 125 million parameters."""
        config = BertConfig(50_265, 514, 1, 12, bert_blocks(768, 12, 1e-5), padding=1, head=head)
        return cls(config, rngs=rngs or nnx.Rngs(0))

    @classmethod
    def roberta_large(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """RoBERTa of 355 million parameters."""
        config = BertConfig(50_265, 514, 1, 24, bert_blocks(1024, 16, 1e-5), padding=1, head=head)
        return cls(config, rngs=rngs or nnx.Rngs(0))

    def _layer(self, number: int, rule: Rule, rngs: nnx.Rngs) -> EncoderBlock:
        """Block number 0, 1, …."""
        return EncoderBlock(self.config.blocks, rule=rule, rngs=rngs)

    def __call__(
        self,
        ids: Array,
        segments: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
        rng: Array | None = None,
    ) -> Any:
        """What the head says; the states where there is none.

        Args:
          ids: `b t`, integers.
          segments: `b t`, integers; all 0 where None.
          mask: joins the rule's, as ``masks.valid(ids != padding)``.
          rng: a key, or one per row, `b`, to train with dropout; None for none.

        Returns:
          Without a head the states, `b t m`; logits `b t v` of a masked language model, `b l` of
          sequence classification, `b t l` of token classification, `b 2` of whether the next
          sentence follows, `b t 2` of where an answer begins and ends; of pretraining those of
          tokens and of the next sentence.
        """
        return self._said(self.hidden_states(ids, segments, mask=mask, rng=rng)[-1], rng)

    def hidden_states(
        self,
        ids: Array,
        segments: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
        rng: Array | None = None,
    ) -> tuple[Array, ...]:
        """What each block is given, and what the last one gives: layers + 1 times `b t m`."""
        return self._states(ids, segments, rng, lambda layer, x, n: layer(x, mask=mask, noise=n))

    def _states(
        self,
        ids: Array,
        segments: Array | None,
        rng: Array | None,
        call: Callable[[Any, Array, Dropout | None], Array],
    ) -> tuple[Array, ...]:
        """The states, with each layer called in a way of its own."""
        x = self._embed(ids, jnp.zeros_like(ids) if segments is None else segments)
        dropout, scanned = self.config.blocks.dropout, self.config.blocks.scanned
        return states_between(self.layers, x, call, dropout=dropout, rng=rng, scanned=scanned)

    def attention_maps(
        self,
        ids: Array,
        segments: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
    ) -> tuple[Array, ...]:
        """Where each layer looks, `b h t t` each; without dropout."""
        return attention_maps(type(self).hidden_states, self, ids, segments, mask=mask)

    def _embed(self, ids: Array, segments: Array) -> Array:
        x, padding = self.embedding(ids) + self.segments(segments), self.config.padding
        if self.positions is None:  # the rule says where tokens stand
            return self.norm(x)
        longest = self.positions.size - (0 if padding is None else padding + 1)
        if ids.shape[-1] > longest:
            raise ValueError(f"{ids.shape[-1]} tokens, but the model has {longest} positions")
        places = jnp.arange(ids.shape[-1]) if padding is None else count_real(ids, padding)
        return self.norm(x + self.positions(places))
