import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend, features, masks, normalizers, scores

KEY = jax.random.key(0)


def test_elu_plus_one_is_positive_and_smooth_at_zero():
    x = jnp.array([-80.0, -1.0, 0.0, 1.0, 90.0])
    phi, slope = jax.vmap(jax.value_and_grad(features.elu_plus_one()))(x)
    np.testing.assert_allclose(phi, np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))), rtol=1e-6)
    np.testing.assert_allclose(slope, np.where(x > 0, 1, np.exp(np.minimum(x, 0))), rtol=1e-6)
    assert (phi > 0).all()


def test_favor_is_its_formula():
    phi = features.favor(KEY, 4, 8)
    x = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    scaled = x / 4**0.25
    exact = np.exp(scaled @ np.asarray(phi.directions).T - (scaled**2).sum(-1, keepdims=True) / 2)
    exact = exact / np.sqrt(8)
    np.testing.assert_allclose(phi(x), exact, rtol=1e-5)
    np.testing.assert_allclose(phi.of_queries(x), exact / exact.max(-1, keepdims=True), rtol=1e-5)
    assert [leaf.shape for leaf in jax.tree.leaves(phi)] == [(8, 4)]


def test_directions_are_orthogonal_within_a_block_and_as_long_as_gaussian_vectors():
    directions = np.asarray(features.favor(KEY, 16, 400).directions)
    for block in range(0, 400, 16):
        gram = directions[block : block + 16] @ directions[block : block + 16].T
        np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-4)
    assert np.square(directions).sum(1).mean() == pytest.approx(16, rel=0.1)
    assert abs(directions.mean(0)).max() < 0.2  # every direction is as likely as its opposite
    free = np.asarray(features.favor(KEY, 16, 400, orthogonal=False).directions)
    assert abs(free[0] @ free[1]) > 1e-3


@pytest.mark.parametrize("orthogonal", [True, False])
def test_the_estimate_has_no_bias(orthogonal):
    q, k = 0.6 * np.random.default_rng(1).normal(size=(2, 5, 8)).astype(np.float32)

    def error(key):
        phi = features.favor(key, 8, 32, orthogonal)
        return phi(q) @ phi(k).T / jnp.exp(q @ k.T / jnp.sqrt(8)) - 1

    sample = np.asarray(jax.jit(jax.vmap(error))(jax.random.split(KEY, 300)))
    assert (abs(sample.mean(0)) < 4.5 * sample.std(0) / np.sqrt(len(sample))).all()


def performer(q, k, v):
    rule = Rule(
        scores.kernel(features.favor(KEY, q.shape[-1], 64, orthogonal=False)),
        mask=masks.causal(),
        normalizer=normalizers.l1(),
    )
    return attend(q, k, v, rule=rule, backend="dense")


def test_nothing_of_a_later_key_leaks_however_large():
    """A30."""
    q, k, v = np.random.default_rng(2).normal(size=(3, 6, 1, 8)).astype(np.float32)
    attended = jax.jit(performer)
    scaled = k.copy()
    scaled[-1] *= 30
    np.testing.assert_array_equal(attended(q, scaled, v)[:-1], attended(q, k, v)[:-1])


def test_large_queries_and_keys_neither_overflow_nor_give_nan():
    q, k, v = np.random.default_rng(3).normal(size=(3, 6, 1, 64)).astype(np.float32)
    attended = jax.jit(jax.value_and_grad(lambda *x: performer(*x).sum(), argnums=(0, 1, 2)))
    for size in (4.0, 30.0):
        y, gradients = attended(size * q, size * k, v)
        assert np.isfinite(y)
        assert all(np.isfinite(g).all() for g in gradients)


def test_dividing_queries_by_their_largest_feature_changes_no_weight_and_no_gradient():
    q, k, v = (jnp.asarray(x) for x in np.random.default_rng(4).normal(size=(3, 5, 1, 4)))
    phi = features.favor(KEY, 4, 8)

    def through(feature_map):
        rule = Rule(scores.kernel(feature_map), normalizer=normalizers.l1())
        return jax.value_and_grad(
            lambda *x: (attend(*x, rule=rule, backend="dense") ** 2).sum(), (0, 1, 2)
        )(q, k, v)

    divided, plain = jax.jit(lambda: (through(phi), through(lambda x: phi(x))))()
    for a, b in zip(*map(jax.tree.leaves, (divided, plain)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_what_makes_no_features_is_refused():
    with pytest.raises(TypeError, match=r"favor\(rng\) must be a typed key"):
        features.favor(0, 4, 8)
    with pytest.raises(ValueError, match="at least 1, got 4 and 0"):
        features.favor(KEY, 4, 0)
    x = jnp.ones((2, 1, 5))
    rule = Rule(scores.kernel(features.favor(KEY, 4, 8)))
    with pytest.raises(ValueError, match="made for queries and keys of depth 4, got 5"):
        attend(x, x, x, rule=rule, backend="dense")
