"""Biases: numbers added to the scores, structured and learnable. Closed under ``+``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from attn_jax.functional.bias import Bias
from attn_jax.functional.mask import Axes
from attn_jax.functional.mask_checks import broadcasts
from attn_jax.functional.position_biases import alibi, relative_2d, t5
from attn_jax.functional.tiles import Tile
from attn_jax.functional.value import Array, leaf

__all__ = ["Bias", "alibi", "dense", "relative_2d", "t5"]


class dense(Bias):
    """Any array of numbers, :math:`s_{ij} + b_{ij}`.

    Args:
      array: floats that broadcast to `*b h t s`; −inf hides a pair from a query, though unlike a mask
        it cannot hide NaN.

    Shapes:
      values: those of the array.

    Raises:
      TypeError: the array is boolean: that is a mask.

    >>> dense(jnp.zeros((2, 4, 4)))
    dense(float32[2,4,4])
    """

    array: Any = leaf()

    def __post_init__(self) -> None:
        if self.array is None:
            raise TypeError("biases.dense(array) takes an array of numbers, got None")
        given = np.asarray(self.array) if isinstance(self.array, list | tuple) else self.array
        if jnp.result_type(given) == jnp.bool_:
            raise TypeError(
                "biases.dense(array) is additive, got booleans: a boolean array is a mask, use "
                "masks.explicit(array)"
            )
        super().__post_init__()

    def check(self, axes: Axes) -> None:
        target, shape = (*axes.batch, axes.h, axes.t, axes.s), jnp.shape(self.array)
        if not broadcasts(shape, target):
            raise ValueError(
                f"biases.dense(array) must broadcast to *b h t s = {target}, got shape {shape}"
            )

    def values(self, tile: Tile) -> Array:
        array = jnp.asarray(self.array)
        return tile.of_both(array.reshape((1,) * (2 - array.ndim) + array.shape))
