import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.functional.positions import sinusoidal, sinusoidal_2d


def test_half_of_the_encoding_is_the_row_and_half_the_column():
    grid = np.stack(np.meshgrid(np.arange(3), np.arange(5), indexing="ij"), axis=-1)
    encoded = sinusoidal_2d(grid, 8)
    assert encoded.shape == (3, 5, 8)
    assert encoded.dtype == jnp.float32
    for y, x in np.ndindex(3, 5):
        angles = np.array([y, y / 100, x, x / 100])  # 10000^(2c/4) for c = 0, 1
        expected = np.stack([np.sin(angles), np.cos(angles)], -1).ravel()
        np.testing.assert_allclose(encoded[y, x], expected, atol=1e-6)
    np.testing.assert_array_equal(encoded[0, :, 4:], sinusoidal(jnp.arange(5), 4))


def test_what_cannot_be_encoded_is_refused():
    with pytest.raises(ValueError, match="multiple of 4, got 6"):
        sinusoidal_2d(jnp.zeros((3, 2)), 6)
    with pytest.raises(ValueError, match=r"rows and columns, … 2; got shape \(3,\)"):
        sinusoidal_2d(jnp.arange(3), 8)
