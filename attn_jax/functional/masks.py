"""Masks: which queries may look at which keys. True = may look; combine with ``& | ~ ^``.

Query position `i`, key position `j`. Masks of positions (`causal`, `window`, `band`, `diagonal`,
`prefix`, `stride`, `same_block`, `where`) follow the positions given to ``attend``; masks of indices
(`valid`, `lengths`, `segments`, `global_tokens`, `explicit`) follow the arrays' own order.

A mask raises TypeError where it is built from the wrong dtype, and ValueError where it does not fit the
batch, the heads or the lengths that ``attend`` is given; both name the argument and the axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from attn_jax.functional.index_masks import explicit, global_tokens, lengths, segments, valid
from attn_jax.functional.mask import Axes, Bounds, Mask
from attn_jax.functional.position_masks import (
    band,
    causal,
    diagonal,
    prefix,
    same_block,
    stride,
    where,
    window,
)
from attn_jax.functional.tiles import Blocks, Tile
from attn_jax.functional.value import Array, show

__all__ = [
    "Mask", "band", "causal", "diagonal", "everything", "explicit", "global_tokens", "lengths",
    "per_head", "prefix", "same_block", "segments", "stride", "valid", "where", "window",
]  # fmt: skip


class everything(Mask):
    """Every query may look at every key; the unit of ``&``.

    Shapes:
      entries: `1 1`, True.

    >>> everything() & causal()
    causal()
    """

    def allowed(self, tile: Tile) -> Array:
        return jnp.ones((1, 1), bool)

    def bounds(self, blocks: Blocks) -> Bounds:
        return Bounds(np.True_, np.True_)

    def __and__(self, other: Mask) -> Mask:
        return other if isinstance(other, Mask) else super().__and__(other)


class per_head(Mask):
    """A mask for each query head: head h is under ``masks[h]``.

    Args:
      masks: as many masks as there are query heads; none of them may itself differ between heads.

    Shapes:
      entries: `h t s`, or `*b h t s` where any of them differs between batch rows.

    Raises:
      TypeError: what is given are not masks.

    >>> per_head([causal(), window(1, 0)]).dense(2, 2).shape
    (2, 2, 2)
    """

    masks: Sequence[Mask]

    def __post_init__(self) -> None:
        object.__setattr__(self, "masks", tuple(self.masks))
        for given in self.masks:
            if not isinstance(given, Mask):
                raise TypeError(
                    f"masks.per_head takes masks, one per query head; got {show(given)} among them"
                )
        super().__post_init__()

    @property
    def reads_positions(self) -> bool:
        return any(mask.reads_positions for mask in self.masks)

    def check(self, axes: Axes) -> None:
        if len(self.masks) != axes.h:
            raise ValueError(
                f"masks.per_head needs one mask per query head: got {len(self.masks)} masks for "
                f"h = {axes.h} heads"
            )
        for mask in self.masks:
            mask.check(axes._replace(h=1))

    def allowed(self, tile: Tile) -> Array:
        return _stack_heads([mask.allowed(tile) for mask in self.masks], jnp)

    def bounds(self, blocks: Blocks) -> Bounds:
        known = [mask.bounds(blocks) for mask in self.masks]
        xp = np if all(isinstance(x, np.ndarray | np.generic) for b in known for x in b) else jnp
        return Bounds(*(_stack_heads(list(x), xp) for x in zip(*known, strict=True)))


def _stack_heads(arrays: list[Any], xp: Any) -> Any:
    """Arrays that broadcast to `*b 1 t s`, one per head, side by side: `*b h t s`."""
    shape = np.broadcast_shapes((1, 1, 1), *(np.shape(a) for a in arrays))
    return xp.concatenate([xp.broadcast_to(a, shape) for a in arrays], axis=-3)
