"""BigBird: BERT in which blocks of tokens see their neighbours, the two ends and a few at random."""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import jax
from flax import nnx

from attn_jax.functional.rule import Rule
from attn_jax.models.bert import Bert, BertConfig, Head, bert_blocks
from attn_jax.modules.block_sparse import BlockSparse, BlockSparseAttention
from attn_jax.modules.blocks import ACTIVATIONS, BlockOptions, EncoderBlock

Array = jax.Array


def _blocks(width: int, heads: int) -> BlockOptions:
    return dataclasses.replace(bert_blocks(width, heads), activation="gelu_tanh")


@dataclasses.dataclass(frozen=True)
class BigBirdConfig(BertConfig):
    """The sizes of a BigBird; the defaults are its base model.

    The other fields are those of :class:`attn_jax.models.BertConfig`.

    Args:
      attention: "block_sparse", or "original_full": BERT's.
      block: how many positions make a block.
      random_blocks: how many blocks each block sees besides its neighbours and the two ends.
      seed: from which these are drawn, in each layer anew. None: all of them are the first block,
        counted again, which is how ``transformers`` evaluates a published model.
    """

    vocabulary: int = 50_358
    positions: int = 4096
    blocks: BlockOptions = dataclasses.field(default_factory=lambda: _blocks(768, 12))
    attention: Literal["block_sparse", "original_full"] = "block_sparse"
    block: int = 64
    random_blocks: int = 3
    seed: int | None = 0


class BigBird(Bert):
    """BERT for long documents: its attention takes time and memory linear in their length.

    Args:
      config: the sizes and the head.
      rule: the mechanism of all attention; the pattern of each layer joins it.
      rngs: where the initial parameters come from.

    Reference: Zaheer et al. (2020).

    >>> import jax.numpy as jnp
    >>> blocks = BlockOptions(width=8, hidden=16, heads=2)
    >>> config = BigBirdConfig(11, 64, 2, 1, blocks, block=4, random_blocks=1)
    >>> make = lambda ids: BigBird(config, rngs=nnx.Rngs(0))(ids)
    >>> jax.eval_shape(make, jnp.ones((1, 33), int)).shape
    (1, 33, 8)
    """

    config: BigBirdConfig

    def __init__(
        self,
        config: BigBirdConfig = BigBirdConfig(),
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(config, rule=rule, rngs=rngs)

    @classmethod
    def base(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """BigBird of 127 million parameters, for 4,096 tokens."""
        return cls(BigBirdConfig(head=head), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def large(cls, head: Head | None = None, *, rngs: nnx.Rngs | None = None) -> Self:
        """BigBird of 359 million parameters, for 4,096 tokens."""
        config = BigBirdConfig(layers=24, blocks=_blocks(1024, 16), head=head)
        return cls(config, rngs=rngs or nnx.Rngs(0))

    def _layer(self, number: int, rule: Rule, rngs: nnx.Rngs) -> EncoderBlock:
        config, pattern = self.config, None
        if config.attention == "block_sparse":
            seed = None if config.seed is None else config.seed + number
            pattern = BlockSparse(config.block, config.random_blocks, seed)
        attention = BlockSparseAttention(config.blocks, pattern, rule=rule, rngs=rngs)
        return EncoderBlock(config.blocks, attention=attention, rngs=rngs)

    def pooled(self, states: Array) -> Array:
        """The first token's last state `b t m`, through a layer: `b m`.

        The layer's activation is tanh, and that of the blocks where it stands before the label of a
        sequence.
        """
        if self.config.head != "sequence_classification":
            return super().pooled(states)
        return ACTIVATIONS[self.config.blocks.activation](self.pooler(states[..., 0, :]))
