"""The statistics of the weights against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import (
    Positions,
    Rule,
    attention_stats,
    attention_weights,
    biases,
    masks,
    normalizers,
    scores,
)

RNG = np.random.default_rng(0)
Q = jnp.asarray(RNG.normal(size=(2, 5, 4, 3)), jnp.float32)
K = jnp.asarray(RNG.normal(size=(2, 7, 2, 3)), jnp.float32)
RULES = {
    "plain": Rule(),
    "empty rows": Rule(mask=masks.causal(-2)),
    "alibi and sinks": Rule(bias=biases.alibi(4), normalizer=normalizers.softmax(sink=0.5)),
    "out of reach": Rule(scores.epanechnikov(1.5)),
    "sparsemax": Rule(normalizer=normalizers.sparsemax()),
    "sigmoid": Rule(normalizer=normalizers.sigmoid(), mask=masks.window(2, 1)),
}


def by_definition(w, i, j):
    w = np.asarray(w, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(w * np.log(w), -1)
    i, j = i[:, None], j[None]
    return entropy, w.max(-1), (w * (i == j)).sum(-1), (w * abs(i - j)).sum(-1)


@pytest.mark.parametrize("name", RULES)
def test_statistics_are_their_definitions(name):
    rule, i, j = RULES[name], np.array([6, 0, 3, 2, 1]), np.arange(7)
    stats, weights = jax.jit(
        lambda *x: [
            f(*x, rule=rule, positions=Positions(i, j))
            for f in (attention_stats, attention_weights)
        ]
    )(Q, K)
    assert {x.shape for x in stats} == {(2, 4, 5)}
    found = stats.entropy, stats.max_weight, stats.self_weight, stats.distance
    for a, b in zip(found, by_definition(weights, i, j), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    empty = np.asarray(stats.max_score) == -np.inf
    assert all((np.asarray(x)[empty] == 0).all() for x in found)
    assert empty.any() == (name in ("empty rows", "out of reach"))


def test_the_highest_score_is_after_bias_and_transform_and_of_keys_that_are_seen():
    bias = jnp.asarray(RNG.normal(size=(4, 5, 7)), jnp.float32)
    rule = Rule(bias=biases.dense(bias), transform=lambda s, i, j: 2 * s, mask=masks.causal())
    stats = attention_stats(Q, K, rule=rule, positions="end")
    s = np.einsum("bthd,bshd->bhts", Q, np.repeat(K, 2, 2)) / np.sqrt(3) + bias
    seen = np.tril(np.ones((5, 7)), 2)
    np.testing.assert_allclose(
        stats.max_score, np.where(seen, 2 * s, -np.inf).max(-1), rtol=1e-5, atol=1e-6
    )


def test_hidden_keys_may_hold_nan_and_gradients_are_finite():
    k = K.at[:, 5:].set(jnp.nan)
    rule = Rule(mask=masks.valid(np.arange(7) < 5) & masks.causal(-1))

    def total(q, k):
        stats = attention_stats(q, k, rule=rule, positions="start")
        return sum(jnp.where(jnp.isfinite(x), x, 0).sum() for x in stats)

    value, gradients = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(Q, k)
    assert np.isfinite(value)
    assert all(np.isfinite(g).all() for g in gradients)
    assert (gradients[1][:, 5:] == 0).all()


def test_a_uniform_row_has_the_entropy_of_its_length():
    stats = attention_stats(0 * Q, K, rule=Rule(mask=masks.causal()), positions="end")
    np.testing.assert_allclose(stats.entropy[0, 0], np.log([3, 4, 5, 6, 7]), rtol=1e-6)
    np.testing.assert_allclose(stats.self_weight[0, 0], 1 / np.arange(3, 8), rtol=1e-6)
    np.testing.assert_allclose(stats.distance[0, 0], np.arange(3, 8) / 2 - 0.5, rtol=1e-6)


def test_a_certain_row_has_none():
    stats = attention_stats(Q, K, rule=Rule(mask=masks.window(0, 0)), positions="start")
    for value, expected in ((stats.entropy, 0), (stats.self_weight, 1), (stats.distance, 0)):
        assert (value == expected).all()
    assert attention_stats(Q, K[:, :0]).entropy.shape == (2, 4, 5)
