"""Distances are exact where it matters, and cost no more memory than the scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attention_weights, scores
from attn_jax.functional.distance_scores import squared_distance

INF = np.inf


def test_distances_are_exact_far_from_the_origin_and_between_near_neighbours():
    rng = np.random.default_rng(0)
    q = np.float32(1000 + rng.normal(size=(5, 1, 8)))
    k = np.concatenate([q, q + np.float32(1e-3)])  # each key a neighbour of a query, or itself
    exact = np.square(np.float64(q[:, None, 0]) - np.float64(k[None, :, 0])).sum(-1)
    found = squared_distance(jnp.asarray(q), jnp.asarray(k))[0]
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    assert (np.diag(found) == 0).all()


@pytest.mark.parametrize(("score", "depth"), [(scores.gaussian(), 64), (scores.laplace(), 1)])
def test_memory_is_that_of_the_scores_in_both_directions(score, depth):
    x = jax.ShapeDtypeStruct((128, 1, depth), jnp.float32)

    def loss(score, q, k):
        return jnp.exp(score.pair(q, k)).sum()

    step = jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(score, x, x).compile()
    table = 128 * 128 * 4
    assert step.memory_analysis().temp_size_in_bytes < 12 * table  # all terms at once: 64 tables


def test_the_edge_of_a_compact_kernel():
    q, k = jnp.zeros((1, 1, 1)), jnp.array([0.0, 1.0, 2.0, 2.0000002, 3.0])[:, None, None]

    def on(score):
        return score.pair(q, k)[0, 0]

    np.testing.assert_array_equal(on(scores.boxcar(2.0)), [0, 0, 0, -INF, -INF])
    np.testing.assert_allclose(on(scores.triangular(2.0)), [0, np.log(0.5), -INF, -INF, -INF])
    np.testing.assert_allclose(
        on(scores.epanechnikov(2.0)), [0, np.log(0.75), -INF, -INF, -INF], rtol=1e-6
    )


@pytest.mark.parametrize("name", ["boxcar", "triangular", "epanechnikov"])
def test_a_key_out_of_reach_has_no_weight_and_a_query_out_of_reach_none_to_give(name):
    q, k = jnp.array([0.0, 50.0])[:, None, None], jnp.array([0.5, 5.0])[:, None, None]
    weights = attention_weights(q, k, rule=Rule(getattr(scores, name)(1.0)))
    np.testing.assert_array_equal(weights[0], [[1, 0], [0, 0]])


def test_the_gradient_at_a_cusp_is_zero():
    x = jnp.ones((1, 1, 3))
    for score in (scores.laplace(), scores.triangular()):
        gradients = jax.grad(lambda q, k, s=score: s.pair(q, k).sum(), (0, 1))(x, x)
        assert all((g == 0).all() for g in gradients)
