"""What stands in for keys that nobody sees reaches no gradient, on any backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend, masks, normalizers, scores

Q, K, V = jax.random.normal(jax.random.key(0), (3, 1, 4, 1, 3))


def on_the_sphere(x):
    """Features that have no derivative at 0."""
    return jnp.exp(x / jnp.linalg.norm(x, axis=-1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dense", "blockwise", "linear"])
def test_features_without_a_derivative_at_zero_meet_padding(backend):
    def total(q, k, v, mask):
        rule = Rule(scores.kernel(on_the_sphere), mask=mask, normalizer=normalizers.l1())
        return (attend(q, k, v, rule=rule, positions="start", backend=backend) ** 2).sum()

    padded = masks.valid([True, True, False, False]) & masks.causal(-1)
    slopes = jax.grad(total, (0, 1, 2))(Q, K, V, padded)
    alone = jax.grad(total, (0, 1, 2))(Q, K[:, :2], V[:, :2], masks.causal(-1))
    for slope, expected in zip(slopes, alone, strict=True):
        n = expected.shape[1]
        np.testing.assert_allclose(slope[:, :n], expected, atol=1e-5)
        np.testing.assert_array_equal(slope[:, n:], 0)
