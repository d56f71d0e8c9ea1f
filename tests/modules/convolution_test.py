"""Patches, and batch normalisation whose statistics are values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.modules.convolution import BatchNorm, BatchRecord, ConvNorm, PatchEmbedding


def test_running_statistics_move_a_tenth_towards_the_batch_and_the_module_stays():
    norm = BatchNorm(3)
    before = jax.tree.map(jnp.copy, nnx.state(norm))
    x = np.random.default_rng(0).normal(2, 3, (4, 5, 3)).astype(np.float32)
    record = BatchRecord()
    y = norm(jnp.asarray(x), record)
    np.testing.assert_allclose(y.reshape(-1, 3).mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(y.reshape(-1, 3).std(0), 1, atol=1e-5)
    moved = record.statistics(norm)
    np.testing.assert_allclose(moved["mean"][...], 0.1 * x.mean((0, 1)), rtol=1e-5)
    variance = x.reshape(-1, 3).var(0, ddof=1)
    np.testing.assert_allclose(moved["variance"][...], 0.9 + 0.1 * variance, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(nnx.state(norm)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_statistics_are_exact_far_from_zero_and_float32_of_bfloat16():
    far = 1e4 + jnp.array([[-1.0], [1.0]])
    np.testing.assert_allclose(BatchNorm(1)(far, BatchRecord()), [[-1], [1]], atol=1e-3)
    x = jnp.asarray(np.random.default_rng(0).normal(3, 1, (64, 2)), jnp.bfloat16)
    norm, record = BatchNorm(2), BatchRecord()
    assert norm(x, record).dtype == jnp.bfloat16
    mean = record.statistics(norm)["mean"][...]
    np.testing.assert_allclose(mean, 0.1 * np.float32(x).mean(0), rtol=1e-5)


def patches():
    embedding = nnx.eval_shape(lambda: PatchEmbedding(3, 5, (2, 3), rngs=nnx.Rngs(0)))
    rng = np.random.default_rng(0)
    embedding.kernel = nnx.Param(jnp.asarray(rng.normal(size=(2, 3, 3, 5))))
    embedding.bias = nnx.Param(jnp.asarray(rng.normal(size=5)))
    return embedding


def test_a_patch_is_what_its_kernel_sums():
    images = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype(np.float32)
    embedding = patches()
    summed = np.tensordot(images[1, 2:4, 3:6], embedding.kernel[...], 3) + embedding.bias[...]
    np.testing.assert_allclose(embedding(jnp.asarray(images))[1, 1, 1], summed, atol=1e-5)


def test_what_does_not_fit_is_refused():
    embedding = patches()
    with pytest.raises(ValueError, match="2 × 3 do not divide an image of 4 × 5"):
        embedding(jnp.ones((4, 5, 3)))
    with pytest.raises(ValueError, match="c = 3 channels, got shape"):
        embedding(jnp.ones((4, 6, 1)))
    with pytest.raises(TypeError, match="uint8: scale them"):
        embedding(jnp.ones((4, 6, 3), jnp.uint8))
    with pytest.raises(ValueError, match="two values a channel"):
        BatchNorm(3)(jnp.ones((1, 3)), BatchRecord())
    with pytest.raises(ValueError, match="odd, got 2 × 2"):
        ConvNorm(3, 3, 2, rngs=nnx.Rngs(0))
