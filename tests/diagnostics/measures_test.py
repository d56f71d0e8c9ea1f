"""Measures of attention weights against the formulas, written with loops in float64 numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from attn_jax import Rule, attend, attention_stats, attention_weights, masks
from attn_jax.diagnostics import measures

pytestmark = pytest.mark.slow  # the doctests are the fast ones
B, T, H = 2, 7, 3
real = jnp.arange(T) < jnp.array([[7], [4]])


@pytest.fixture(scope="module")
def looks():
    q, k = 3 * jax.random.normal(jax.random.key(0), (2, B, T, H, 4))
    rule = Rule(mask=masks.causal() & masks.valid(real))
    return q, k, rule, attention_weights(q, k, rule=rule)


def rows(weights, counted=real):
    """Every query that counts: (head, its row, its position)."""
    w = np.asarray(weights, np.float64)
    return [
        (h, w[b, h, i], i) for b in range(B) for h in range(H) for i in range(T) if counted[b, i]
    ]


def per_head(numbers):
    return np.array([np.mean([x for g, x in numbers if g == h]) for h in range(H)])


def test_summary_is_the_mean_over_the_queries_that_count(looks):
    q, k, rule, w = looks
    got = measures.summary(attention_stats(q, k, rule=rule), real)
    entropy = per_head([(h, -(p[p > 0] * np.log(p[p > 0])).sum()) for h, p, _ in rows(w)])
    distance = per_head([(h, (p * abs(i - np.arange(T))).sum()) for h, p, i in rows(w)])
    certain = per_head([(h, p.max() > 0.99) for h, p, _ in rows(w)])
    np.testing.assert_allclose(got.entropy, entropy, rtol=1e-5)
    np.testing.assert_allclose(got.distance, distance, rtol=1e-5)
    np.testing.assert_allclose(got.certain, certain, rtol=1e-6)
    np.testing.assert_allclose(got.self_weight, per_head([(h, p[i]) for h, p, i in rows(w)]), 1e-5)


def test_scores_over_thirty_are_counted(looks):
    q, k, rule, _ = looks
    stats = attention_stats(12 * q, k, rule=rule)
    got = measures.summary(stats, real)
    over = np.asarray(stats.max_score) > 30
    np.testing.assert_allclose(
        got.saturated, per_head([(h, over[b, h, i]) for b, h, i in _places()])
    )
    assert (got.max_score == np.where(real[:, None], stats.max_score, -np.inf).max((0, 2))).all()


def _places():
    return [(b, h, i) for b in range(B) for h in range(H) for i in range(T) if real[b, i]]


def test_a_head_that_sees_nothing_is_not_a_number_and_spoils_no_other():
    q = jax.random.normal(jax.random.key(1), (4, 2, 3))
    rule = Rule(mask=masks.per_head([masks.everything(), ~masks.everything()]))
    got = measures.summary(attention_stats(q, q, rule=rule))
    for x in got:
        assert np.isfinite(x[0])
        assert np.isnan(x[1])
    weights = attention_weights(q, q, rule=rule)
    assert np.isnan(measures.divergence(weights)[0, 1])
    assert measures.alike(measures.divergence(weights)) == []


def test_positional_weights_are_those_of_the_neighbours(looks):
    w = looks[-1]
    got = measures.positional(w, real)
    for name, at in (("previous", -1), ("itself", 0), ("next", 1)):
        expected = per_head([(h, p[i + at]) for h, p, i in rows(w) if 0 <= i + at < T])
        np.testing.assert_allclose(getattr(got, name), expected, rtol=1e-5)
    np.testing.assert_allclose(got.first, per_head([(h, p[0]) for h, p, _ in rows(w)]), rtol=1e-5)
    with pytest.raises(ValueError, match="t = s; got t = 7, s = 6"):
        measures.positional(w[..., :6])


def test_weight_on_keys_is_attention_with_booleans_as_values(looks):
    q, k, rule, w = looks
    keys = jnp.arange(T) % 3 == 0
    got = measures.weight_on(w, keys, real)
    np.testing.assert_allclose(got, per_head([(h, p[::3].sum()) for h, p, _ in rows(w)]), rtol=1e-5)
    values = jnp.broadcast_to(keys[:, None, None], (B, T, H, 1)).astype(float)
    streamed = attend(q, k, values, rule=rule, backend="blockwise")[..., 0]
    expected = np.mean(np.asarray(streamed)[np.asarray(real)], 0)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_the_future_has_no_weight_where_a_mask_is_causal(looks):
    q, k, rule, w = looks
    assert (measures.weight_on_future(w) == 0).all()
    leaking = attention_weights(q, k, rule=rule.replace(mask=masks.causal(1)))
    assert (measures.weight_on_future(leaking) > 0).all()


def test_divergence_is_that_of_jensen_and_shannon(looks):
    w = looks[-1]
    got = measures.divergence(w, real)
    p = np.asarray(w, np.float64)
    places = [(b, i) for b in range(B) for i in range(T) if real[b, i]]
    expected = [
        [
            np.mean([jensenshannon(p[b, g, i], p[b, h, i], base=2) ** 2 for b, i in places])
            for h in range(H)
        ]
        for g in range(H)
    ]
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(got, got.T, atol=1e-6)


def test_heads_that_do_the_same_are_found(looks):
    w = looks[-1]
    same = jnp.concatenate([w, w[:, 1:2], w[:, :1], 0.999 * w[:, 1:2] + 0.001 / T], 1)
    assert measures.alike(measures.divergence(same, real)) == [[0, 4], [1, 3, 5]]
    assert measures.alike(np.zeros((1, 1))) == []


def test_real_is_boolean(looks):
    with pytest.raises(TypeError, match="real must be booleans"):
        measures.divergence(looks[-1], real.astype(float))
