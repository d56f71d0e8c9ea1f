"""Grids at another size, by Keys' formula cell by cell; the parity tests compare with torch."""

import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.functional.resampling import cubic


def keys(x, a=-0.75):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def along(values, new):
    """One row of numbers at another size: each a sum over all whole places, the border repeated."""
    old = len(values)
    places = [(i + 0.5) * old / new - 0.5 for i in range(new)]
    return [
        sum(keys(place - j) * values[min(max(j, 0), old - 1)] for j in range(-3, old + 3))
        for place in places
    ]


@pytest.mark.parametrize("size", [(2, 9), pytest.param((5, 3), marks=pytest.mark.slow)])
def test_it_is_the_formula_along_columns_and_rows(size):
    grid = np.random.default_rng(0).normal(size=(3, 4, 2))
    right = np.apply_along_axis(along, 1, np.apply_along_axis(along, 0, grid, size[0]), size[1])
    np.testing.assert_allclose(cubic(jnp.asarray(grid, jnp.float32), size), right, atol=1e-5)


def test_what_is_no_grid_is_refused():
    with pytest.raises(ValueError, match=r"got shape \(3, 4\) and \(2, 2\)"):
        cubic(jnp.ones((3, 4)), (2, 2))
    with pytest.raises(ValueError, match="positive size"):
        cubic(jnp.ones((3, 4, 1)), (0, 2))
