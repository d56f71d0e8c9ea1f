"""Grids of vectors, such as learned positions of an image, at another size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from attn_jax.functional.value import Array

__all__ = ["cubic"]

SHARPNESS = -0.75


def cubic(grid: Array, size: tuple[int, int]) -> Array:
    r"""A grid of vectors at another size, by cubic convolution along rows and columns.

    Cell i of n stands at :math:`(i + 1/2) / n`; beyond the border the outermost cell repeats. Each new
    cell is a sum of the four around it, weighed by Keys' kernel with :math:`a = -3/4`, as image
    libraries have it; nothing is smoothed where the grid shrinks.

    Args:
      grid: `y x m`.
      size: the new y and x, positive.

    Returns:
      `y x m` of the new size, of the grid's dtype; the grid itself where the size stays.

    Raises:
      ValueError: the grid is not `y x m`, or a size is not positive.

    Reference: Keys (1981), equation 13 before a is chosen.

    >>> (256 * cubic(jnp.array([[[0.0], [1.0]]]), (1, 4))).round().ravel()
    Array([-27.,  58., 198., 283.], dtype=float32)
    """
    if jnp.ndim(grid) != 3 or min(size) < 1:
        raise ValueError(
            f"cubic takes a grid y x m and a positive size, got shape {jnp.shape(grid)} and {size}"
        )
    if jnp.shape(grid)[:2] == tuple(size):
        return grid
    rows, columns = (
        jnp.asarray(_weights(old, new), grid.dtype) for old, new in zip(grid.shape, size)
    )
    return jnp.einsum("Yy,Xx,yxm->YXm", rows, columns, grid)


def _weights(old: int, new: int) -> np.ndarray:
    """How much each of `old` cells counts for each of `new`: `new old`, float64."""
    place = (np.arange(new) + 0.5) * old / new - 0.5
    taps = np.floor(place)[:, None] + np.arange(-1, 3)
    x = np.abs(place[:, None] - taps)
    a = SHARPNESS
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * (x**3 - 5 * x**2 + 8 * x - 4)
    weights = np.zeros((new, old))
    which = np.clip(taps, 0, old - 1).astype(int)
    np.add.at(weights, (np.arange(new)[:, None], which), np.where(x <= 1, near, far))
    return weights
