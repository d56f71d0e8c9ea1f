"""Patterns: the sparse attention of the literature, written in the algebra of masks.

Each returns a mask, so that more may be said: ``patterns.bigbird(...) & masks.valid(tokens)``. Sizes are
Python integers, in positions unless it says otherwise; ValueError for a block, stride or dilation below
1. The shapes of masks are those under positions that all batch rows share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from attn_jax.functional import masks
from attn_jax.functional.block_masks import block_ends, by_block, first_queries, random_earlier
from attn_jax.functional.mask import Mask
from attn_jax.functional.mask_checks import positive
from attn_jax.functional.score import score_dtype
from attn_jax.functional.tiles import Positions
from attn_jax.functional.value import Array, Value

__all__ = [
    "bigbird", "dilated", "documents", "fixed", "longformer", "pooled", "prefix_lm", "strided",
]  # fmt: skip


def longformer(window: int, is_global: Any = None, dilation: int | Sequence[int] = 1) -> Mask:
    """A sliding window, and a few tokens that see all and are seen by all.

    That is ``|i − j| ≤ r · ⌊window / 2⌋ and (i − j) mod r = 0``, with r the dilation, or
    ``is_global[i] or is_global[j]``.

    Args:
      window: how many neighbours a token sees, both sides together.
      is_global: `*b n`, booleans over the positions of the sequence, fixed or chosen per document (a
        traced array); None for no global tokens. Queries and keys are then the same sequence.
      dilation: the step between neighbours; or one for each query head.

    Returns:
      A mask of `t s`; with global tokens `*b 1 t s`; with a step for each head `h t s` or `*b h t s`.

    Reference: Beltagy, Peters and Cohan (2020), section 3.1.

    >>> print(longformer(2, np.arange(5) == 0).show(5))
    ■ ■ ■ ■ ■
    ■ ■ ■ · ·
    ■ ■ ■ ■ ·
    ■ · ■ ■ ■
    ■ · · ■ ■
    """
    if isinstance(dilation, int):
        near = dilated(window, dilation)
    else:
        near = masks.per_head([dilated(window, step) for step in dilation])
    if is_global is None:
        return near
    return near | masks.global_tokens(queries=is_global, keys=is_global)


def dilated(window: int, dilation: int) -> Mask:
    """A sliding window with gaps, ``|i − j| ≤ r · ⌊window / 2⌋ and (i − j) mod r = 0``.

    Args:
      window: how many neighbours a token sees, both sides together.
      dilation: r, the step from one to the next; 1 leaves no gaps.

    Returns:
      A mask of `t s`.

    Reference: Beltagy, Peters and Cohan (2020), section 3.1 and figure 2c.

    >>> print(dilated(2, 2).show(5))
    ■ · ■ · ·
    · ■ · ■ ·
    ■ · ■ · ■
    · ■ · ■ ·
    · · ■ · ■
    """
    reach = window // 2 * positive("dilated(dilation)", dilation)
    near = masks.window(reach, reach)
    return near if dilation == 1 else near & masks.stride(dilation)


def bigbird(block: int, window: int, global_blocks: int, random_blocks: int, seed: int = 0) -> Mask:
    """Blocks that see the blocks around them, the first few blocks, and a few at random.

    Of block numbers I and J that is ``|I − J| ≤ ⌊window / 2⌋ or I < g or J < g or J ∈ R(I)``, with g the
    number of global blocks. The random blocks R(I) are drawn among those before the window, by the seed
    and I alone, so that a sequence that grows keeps what it had.

    Args:
      block: the size of a block, in positions.
      window: in blocks, both sides together and the query's own included (3: one on each side).
      global_blocks: how many blocks at the beginning see all and are seen by all.
      random_blocks: how many more blocks each block sees.
      seed: which draw.

    Returns:
      A mask of `t s`.

    Reference: Zaheer et al. (2020), section 2 and figure 1.

    >>> print(bigbird(1, window=3, global_blocks=1, random_blocks=1).show(7))
    ■ ■ ■ ■ ■ ■ ■
    ■ ■ ■ · · · ·
    ■ ■ ■ ■ · · ·
    ■ ■ ■ ■ ■ · ·
    ■ ■ · ■ ■ ■ ·
    ■ · ■ · ■ ■ ■
    ■ · · · ■ ■ ■
    """
    reach = positive("bigbird(window)", window) // 2
    landmarks = masks.prefix(global_blocks) | first_queries(global_blocks)
    chosen = random_earlier(random_blocks, seed, first=global_blocks, gap=reach)
    return by_block(masks.window(reach, reach) | landmarks | chosen, block)


def strided(stride: int) -> Mask:
    """The last few positions, and every n-th one before.

    With n the stride that is ``i − j ≤ n or (i − j) mod n = 0``; and causal, ``j ≤ i``.

    Args:
      stride: how many positions before its own a query sees, and the step between the earlier ones.

    Returns:
      A mask of `t s`.

    Reference: Child et al. (2019), section 4.3 (strided).

    >>> print(strided(3).show(6))
    ■ · · · · ·
    ■ ■ · · · ·
    ■ ■ ■ · · ·
    ■ ■ ■ ■ · ·
    · ■ ■ ■ ■ ·
    · · ■ ■ ■ ■
    """
    return masks.window(stride, 0) | (masks.causal() & masks.stride(stride))


def fixed(stride: int, summary: int) -> Mask:
    """A position's own block, and the last positions of every block before.

    With n the stride and c the summary, that is ``⌊i / n⌋ = ⌊j / n⌋ or j mod n ≥ n − c``; and causal,
    ``j ≤ i``.

    Args:
      stride: the size of a block.
      summary: how many positions at the end of each block are seen by all that follow.

    Returns:
      A mask of `t s`.

    Reference: Child et al. (2019), section 4.3 (fixed).

    >>> print(fixed(3, 1).show(6))
    ■ · · · · ·
    ■ ■ · · · ·
    ■ ■ ■ · · ·
    · · ■ ■ · ·
    · · ■ ■ ■ ·
    · · ■ ■ ■ ■
    """
    return masks.causal() & (masks.same_block(stride) | block_ends(stride, summary))


def prefix_lm(n: Any) -> Mask:
    """Causal, but for the first n positions, which everyone sees: ``j ≤ i or j < n``.

    Args:
      n: an integer, or one per batch row, `*b`.

    Returns:
      A mask of `t s`, or `*b 1 t s` where n differs between batch rows.

    Reference: Raffel et al. (2020), section 3.2.1.

    >>> print(prefix_lm(2).show(4))
    ■ ■ · ·
    ■ ■ · ·
    ■ ■ ■ ·
    ■ ■ ■ ■
    """
    return masks.causal() | masks.prefix(n)


def documents(ids: Any) -> Mask:
    """Documents packed into one sequence, none of which sees another: ``ids[i] = ids[j] ≥ 0``.

    Args:
      ids: `*b n`, integers: which document each position belongs to; −1 is padding.

    Returns:
      A mask of `*b 1 n n`.

    Reference: Krell et al. (2021).

    >>> print((documents([0, 0, 1, 1]) & masks.causal()).show(4))
    ■ · · ·
    ■ ■ · ·
    · · ■ ·
    · · ■ ■
    """
    return masks.segments(ids)


class pooled(Value):
    r"""Fine inside a block, coarse between blocks: others are seen through the mean of their tokens.

    The keys and values of n tokens are followed by one summary for each block, the mean
    :math:`\bar k_B = \sum_{j \in B} k_j / |B|`; a query sees the tokens of its own block and the
    summaries of the others. A summary stands where its block ends, so that ``& masks.causal()`` leaves
    summaries of what came before.

    Args:
      block: the size of a block, in positions; the last one may be shorter.

    Shapes:
      keys and values: `*b n g d` before, `*b n+⌈n/block⌉ g d` after.  mask: `n n+⌈n/block⌉`.

    Reference: Liu et al. (2018), whose memory-compressed attention convolves where this takes means.

    >>> from attn_jax import Rule, attend
    >>> pool, x = pooled(2), jnp.ones((4, 1, 8))
    >>> print((pool.mask(4) & masks.causal()).show(4, 6, pool.positions(4)))
    ■ · · · · ·
    ■ ■ · · · ·
    · · ■ · ■ ·
    · · ■ ■ ■ ·
    >>> rule, keys = Rule(mask=pool.mask(4)), pool.append(x)
    >>> attend(x, keys, keys, rule=rule, positions=pool.positions(4)).shape
    (4, 1, 8)
    """

    block: int

    def append(self, x: Array) -> Array:
        """Keys or values `*b n g d` followed by the mean of each block: `*b n+⌈n/block⌉ g d`."""
        *batch, n, g, d = x.shape
        count = self._count(n)
        padding = [*([(0, 0)] * len(batch)), (0, count * self.block - n), (0, 0), (0, 0)]
        blocks = jnp.pad(x, padding).reshape(*batch, count, self.block, g, d)
        sizes = np.minimum(self.block, n - self.block * np.arange(count))
        means = blocks.sum(-3, dtype=score_dtype(x)) / sizes[:, None, None]
        return jnp.concatenate([x, means.astype(x.dtype)], axis=-3)

    def mask(self, n: int) -> Mask:
        """Tokens of the same block, summaries of the others."""
        return masks.same_block(self.block) ^ masks.valid(np.arange(n + self._count(n)) >= n)

    def positions(self, n: int) -> Positions:
        """Of n queries, and of n tokens and the summaries after them."""
        tokens = np.arange(n)
        ends = np.minimum(np.arange(1, self._count(n) + 1) * self.block, n) - 1
        return Positions(tokens, np.concatenate([tokens, ends]))

    def _count(self, n: int) -> int:
        return -(-n // positive("pooled(block)", self.block))
