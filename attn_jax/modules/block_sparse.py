"""BigBird's attention: blocks see their neighbours, the two ends and a few blocks at random."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional import patterns
from attn_jax.functional.bias import Bias
from attn_jax.functional.block_masks import by_block, first_queries
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import prefix
from attn_jax.functional.rule import Rule
from attn_jax.functional.tiles import Tile
from attn_jax.modules.attention import MultiHeadAttention
from attn_jax.modules.block_options import BlockOptions

Array = jax.Array


class repeated(Bias):
    r"""Keys that count several times: :math:`\log n` where a mask allows, and 0 elsewhere.

    Args:
      mask: where.
      times: n.

    Shapes:
      values: those of the mask's entries.

    >>> from attn_jax.functional import masks
    >>> from attn_jax.functional.tiles import whole
    >>> repeated(masks.prefix(1), 2).values(whole(1, 2)).round(3)
    Array([[0.693, 0.   ]], dtype=float32)
    """

    mask: Mask
    times: int

    @property
    def reads_positions(self) -> bool:
        return self.mask.reads_positions

    def values(self, tile: Tile) -> Array:
        return jnp.where(self.mask.allowed(tile), jnp.log(float(self.times)), 0.0)


@dataclasses.dataclass(frozen=True)
class BlockSparse:
    """BigBird's pattern, which depends on how long a sequence is: its last block is global as well.

    Args:
      block, random_blocks, seed: as of :class:`attn_jax.models.BigBirdConfig`.

    Reference: Zaheer et al. (2020), section 2 and appendix D (internal transformer construction).

    >>> print(BlockSparse(1, 0).rule(7).mask.show(7))
    ■ ■ ■ ■ ■ ■ ■
    ■ ■ ■ · · · ■
    ■ ■ ■ ■ · · ■
    ■ · ■ ■ ■ · ■
    ■ · · ■ ■ ■ ■
    ■ · · · ■ ■ ■
    ■ ■ ■ ■ ■ ■ ■
    """

    block: int
    random_blocks: int
    seed: int | None = None

    def rule(self, length: int) -> Rule:
        """The mechanism for `length` tokens; up to 5 + 2r blocks of them all see all."""
        if length <= (5 + 2 * self.random_blocks) * self.block:
            return Rule()
        drawn = 0 if self.seed is None else self.random_blocks
        last = (length - 1) // self.block
        end = by_block(~prefix(last) | ~first_queries(last), self.block)
        mask = patterns.bigbird(self.block, 3, 1, drawn, self.seed or 0) | end
        if drawn == self.random_blocks:
            return Rule(mask=mask)
        between = by_block(~first_queries(1) & first_queries(last) & prefix(1), self.block)
        return Rule(bias=repeated(between, 1 + self.random_blocks), mask=mask)


class BlockSparseAttention(MultiHeadAttention):
    """Attention under a pattern that depends on the length.

    Args:
      options: the sizes.
      pattern: what joins the rule; None for nothing.
      rule: the mechanism otherwise.
      rngs: where the initial parameters come from.
    """

    def __init__(
        self, options: BlockOptions, pattern: BlockSparse | None, *, rule: Rule, rngs: nnx.Rngs
    ) -> None:
        super().__init__(
            options.width, options.heads, rule=rule, dropout=options.attention_dropout, rngs=rngs
        )
        self.pattern = pattern

    def rule_of(self, length: int) -> Rule:
        """The module's rule, joined by the pattern's bias and mask."""
        if self.pattern is None:
            return self.rule
        sparse, bias = self.pattern.rule(length), self.rule.bias
        if bias is not None and sparse.bias is not None:
            bias = bias + sparse.bias
        return self.rule.replace(bias=bias or sparse.bias) & sparse.mask
