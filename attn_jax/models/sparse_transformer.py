"""Sparse Transformer: a causal stack whose every attention sees about the root of what came before."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, Self

from flax import nnx

from attn_jax.functional import masks
from attn_jax.functional.block_masks import block_ends
from attn_jax.functional.mask import Mask
from attn_jax.functional.rule import Rule
from attn_jax.modules.block_options import BlockOptions
from attn_jax.modules.causal_stack import CausalStack, StackConfig
from attn_jax.modules.embeddings import GridEmbedding


def _blocks(heads: int, dropout: float) -> BlockOptions:
    return BlockOptions(
        width=512,
        hidden=2048,
        heads=heads,
        norm="pre",
        activation="gelu_sigmoid",
        epsilon=1e-5,
        dropout=dropout,
    )


@dataclasses.dataclass(frozen=True)
class SparseTransformerConfig(StackConfig):
    """The sizes of a Sparse Transformer; the defaults are the published one for text.

    The other fields are those of :class:`attn_jax.modules.causal_stack.StackConfig`.

    Args:
      pattern: "strided": a position sees the last ones, or every `stride`-th one before; "fixed": its
        own block, or the last ones of every block before.
      stride: how many the last ones are, or how long a block is.
      summary: how many positions at the end of a block are seen by all after it ("fixed").
      mix: who sees which half: in turn every other one of the "layers", or one half of the "heads"
        each; "merged": all see both.
      grid: positions are counted along several axes, the last one fastest, as rows and columns or
        as rows, columns and colours, and each axis has a table; their sizes multiply to `positions`.
    """

    vocabulary: int = 256
    positions: int = 12_288
    layers: int = 30
    blocks: BlockOptions = dataclasses.field(default_factory=lambda: _blocks(8, 0.4))
    tied: bool = False
    pattern: Literal["strided", "fixed"] = "fixed"
    stride: int = 128
    summary: int = 32
    mix: Literal["layers", "heads", "merged"] = "merged"
    grid: tuple[int, ...] = (96, 128)

    def halves(self) -> tuple[Mask, Mask]:
        """The two steps by which anything can get to any later position; both are made causal.

        >>> near, far = SparseTransformerConfig(stride=2, summary=1).halves()
        >>> print((near & masks.causal()).show(4))
        ■ · · ·
        ■ ■ · ·
        · · ■ ·
        · · ■ ■
        >>> print((far & masks.causal()).show(4))
        · · · ·
        · ■ · ·
        · ■ · ·
        · ■ · ■
        """
        if self.pattern == "strided":
            return masks.window(self.stride, 0), masks.stride(self.stride)
        return masks.same_block(self.stride), block_ends(self.stride, self.summary)

    def mask(self, layer: int) -> Mask:
        """Who sees whom in layer 0, 1, …, but for causality."""
        near, far = self.halves()
        if self.mix == "merged":
            return near | far
        if self.mix == "layers":
            return (near, far)[layer % 2]
        half = self.blocks.heads // 2
        return masks.per_head([near] * half + [far] * (self.blocks.heads - half))


class SparseTransformer(CausalStack):
    """A language model for long sequences of bytes, notes or pixels, its attention factorised.

    A position of "fixed" that sees none of the positions it may look at adds nothing.

    Args:
      config: the sizes and the pattern.
      rule: the mechanism of all attention; the pattern and a causal mask join it.
      rngs: where the initial parameters come from.

    Raises:
      ValueError: the sizes of the grid do not multiply to `positions`.

    Reference: Child et al. (2019), section 4.

    >>> blocks = BlockOptions(width=8, hidden=16, heads=2, norm="pre")
    >>> config = SparseTransformerConfig(11, 6, 2, blocks, stride=3, summary=1, grid=(2, 3))
    >>> model = nnx.eval_shape(lambda: SparseTransformer(config, rngs=nnx.Rngs(0)))
    >>> model.layers[0].self_attention.rule.mask
    causal() & (same_block(3) | block_ends(3, 1))
    """

    config: SparseTransformerConfig
    positions: Any

    def __init__(
        self,
        config: SparseTransformerConfig = SparseTransformerConfig(),
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        if math.prod(config.grid) != config.positions:
            raise ValueError(
                f"the sizes of the grid {config.grid} multiply to {math.prod(config.grid)}, expected "
                f"{config.positions} positions"
            )
        super().__init__(config, rule=rule, rngs=rngs)
        if self.positions is not None:
            self.positions = nnx.data(GridEmbedding(config.grid, config.blocks.width, rngs=rngs))
        for i, layer in enumerate(self.layers):
            layer.self_attention.rule &= config.mask(i)

    @classmethod
    def text(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """For 12,288 bytes of text: 95 million parameters (section 7.2 and table 1)."""
        return cls(rngs=rngs or nnx.Rngs(0))

    @classmethod
    def imagenet64(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """For images of 64 × 64 in three colours of 256 shades: 152 million (section 7.3)."""
        config = SparseTransformerConfig(
            layers=48, blocks=_blocks(16, 0.01), pattern="strided", mix="layers", grid=(64, 64, 3)
        )
        return cls(config, rngs=rngs or nnx.Rngs(0))
