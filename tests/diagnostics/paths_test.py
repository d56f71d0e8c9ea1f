"""Rollout, flow and the causal leak."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend, masks
from attn_jax.diagnostics import paths

pytestmark = pytest.mark.slow  # the doctests are the fast ones


@pytest.fixture(scope="module")
def layers():
    scores = jax.random.normal(jax.random.key(0), (3, 2, 4, 4))
    return [jax.nn.softmax(s) for s in scores]


def test_rollout_is_the_product_of_mixed_layers(layers):
    expected = np.eye(4)
    for weights in layers:
        expected = (0.5 * np.eye(4) + 0.5 * np.asarray(weights, np.float64).mean(0)) @ expected
    np.testing.assert_allclose(paths.rollout(layers), expected, rtol=1e-5)
    np.testing.assert_allclose(paths.rollout(layers).sum(-1), 1, rtol=1e-6)


def test_a_query_that_looks_at_nothing_keeps_its_own():
    weights = jnp.array([[[0.5, 0.5], [0, 0]]])
    np.testing.assert_allclose(paths.rollout([weights])[1], [0, 1])


def test_flow_through_one_layer_is_its_capacity_and_through_more_never_exceeds_a_cut(layers):
    mixed = [0.5 * np.eye(4) + 0.5 * np.asarray(w).mean(0) for w in layers]
    np.testing.assert_allclose(paths.flow(layers[:1]), mixed[0], atol=1e-5)
    flows = paths.flow(layers)
    assert (flows <= mixed[-1].sum(1)[:, None] + 1e-5).all()  # what enters the last token
    assert (flows <= mixed[0].sum(0)[None, :] + 1e-5).all()  # what leaves the first
    assert (flows >= paths.rollout(layers) - 1e-5).all()  # a mixture is one way to flow


def test_flow_against_an_augmenting_path_by_hand():
    one = np.array([[[0.0, 1.0], [1.0, 0.0]]])  # mixed with the residual: ½ everywhere
    np.testing.assert_allclose(paths.flow([one, one]), np.ones((2, 2)))


@pytest.mark.parametrize("offset", [0, 1])
def test_only_a_mask_that_shows_the_future_leaks(offset):
    x = jax.random.normal(jax.random.key(2), (5, 6))

    def f(x):
        heads = x.reshape(5, 2, 3)
        return attend(heads, heads, heads, rule=Rule(mask=masks.causal(offset))).reshape(5, 6)

    leak = paths.causal_leak(f, x)
    jacobian = jax.jacobian(f)(x)  # t n t m
    u = jax.random.normal(jax.random.key(0), (5, 6))
    expected = jnp.linalg.norm(jnp.einsum("inkm,in->ikm", jacobian, u), axis=-1)
    np.testing.assert_allclose(leak, expected, atol=1e-5)
    assert bool((jnp.triu(leak, 1) > 0).any()) == bool(offset)


def test_what_is_not_self_attention_is_refused():
    with pytest.raises(ValueError, match="at least one layer"):
        paths.rollout([])
    with pytest.raises(ValueError, match=r"\*b h t t"):
        paths.rollout([jnp.ones((2, 3, 4))])
    with pytest.raises(ValueError, match="one sequence"):
        paths.flow([jnp.ones((1, 2, 3, 3))])
