"""dot, scaled_dot and pairwise against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import attn_jax
from attn_jax import Rule, attention_weights, scores

attend = jax.jit(attn_jax.attend)
RNG = np.random.default_rng(0)
Q, K = RNG.normal(size=(2, 5, 4, 3)), RNG.normal(size=(2, 6, 2, 3))  # 4 query heads, 2 key heads


def by_formula(pair):
    """`b h t s` of a function of two vectors."""
    table = np.empty((2, 4, 5, 6))
    for b, h, t, s in np.ndindex(table.shape):
        table[b, h, t, s] = pair(Q[b, t, h], K[b, s, h // 2], h)
    return table


def evaluated(score, dtype=jnp.float32):
    q, k = jnp.asarray(Q, dtype), jnp.asarray(K, dtype)
    return score.pair(score.prepare_q(q), score.prepare_k(k))


SCALES = np.array([0.5, 1.0, -2.0, 0.0])
CASES = {
    "dot": (scores.dot(), lambda q, k, h: q @ k),
    "scaled_dot": (scores.scaled_dot(), lambda q, k, h: q @ k / np.sqrt(3)),
    "scale": (scores.scaled_dot(0.3), lambda q, k, h: 0.3 * (q @ k)),
    "scale per head": (scores.scaled_dot(list(SCALES)), lambda q, k, h: SCALES[h] * (q @ k)),
    "pairwise": (
        scores.pairwise(lambda q, k, *, w: -w * jnp.abs(q - k).sum(), w=1.5),
        lambda q, k, h: -1.5 * np.abs(q - k).sum(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_are_their_formula_and_query_heads_share_key_heads(name):
    """A26."""
    score, pair = CASES[name]
    np.testing.assert_allclose(evaluated(score), by_formula(pair), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["scaled_dot", "pairwise"])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_scores_of_low_precision_are_float32(name, dtype):
    """Sums too: 2,048 halves of one half are lost to float16 and bfloat16."""
    score, _ = CASES[name]
    assert evaluated(score, dtype).dtype == jnp.float32
    x = jnp.full((1, 1, 2048 + 9), 0.5, dtype)
    exact = {"scaled_dot": 0.25 * np.sqrt(2057), "pairwise": -1.5 * 2057}[name]
    score = (
        scores.pairwise(lambda q, k, *, w: -w * jnp.abs(q + k).sum(), w=1.5)
        if name == "pairwise"
        else score
    )
    np.testing.assert_allclose(score.pair(x, x).item(), exact, rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_float64_stays_float64_and_gradients_are_the_formulas():
    every = {
        name: jax.tree.map(lambda x: x.astype(float), score) for name, (score, _) in CASES.items()
    }
    q, k = jnp.asarray(Q[:1, :2]), jnp.asarray(K[:1, :3])

    def pair(q, k, every):
        return [score.pair(q, k) for score in every.values()]

    assert {y.dtype for y in jax.eval_shape(pair, q, k, every)} == {jnp.dtype("float64")}
    check_grads(jax.jit(pair), (q, k, every), order=1, rtol=1e-6)


def test_two_query_heads_look_through_one_key_head():
    """A26: of 4 query heads and 2 key heads, query heads 0 and 1 use key head 0."""
    k = jnp.zeros((6, 2, 3)).at[2, 0].set(9.0).at[4, 1].set(9.0)
    weights = attention_weights(jnp.ones((1, 4, 3)), k, rule=Rule(scores.dot()))
    assert weights.argmax(-1).ravel().tolist() == [2, 2, 4, 4]


def test_a_pairwise_score_sees_vectors_and_its_leaves_whole():
    seen = []

    def fn(q, k, *, table, scale):
        seen.append((q.shape, k.shape, table.shape, scale.shape))
        return (q[0] + k[1]) * table.sum() * scale

    table = jnp.ones((3, 2))
    score = scores.pairwise(fn, table=table, scale=2)
    y = evaluated(score)
    assert set(seen) == {((3,), (3,), (3, 2), ())}
    np.testing.assert_allclose(y, by_formula(lambda q, k, h: (q[0] + k[1]) * 12), rtol=1e-5)
    assert repr(score) == "pairwise(fn, table=float32[3,2], scale=2)"


def test_a_pairwise_score_may_close_over_what_is_differentiated():
    """A13, A14: a learned scalar captured by the score."""
    q, k = jnp.asarray(Q, jnp.float32), jnp.asarray(K, jnp.float32)

    def loss(w, make):
        return (attend(q, k, k, rule=Rule(make(w))) ** 2).sum()

    def captured(w):
        return scores.pairwise(lambda q, k: w * jnp.tanh(q @ k))

    def given(w):
        return scores.pairwise(lambda q, k, *, w: w * jnp.tanh(q @ k), w=w)

    slopes = [
        jax.jit(jax.grad(lambda w, make=make: loss(w, make)))(0.7) for make in (captured, given)
    ]
    np.testing.assert_allclose(*slopes, rtol=1e-6)
    assert abs(slopes[0]) > 1e-3


def test_a_pairwise_score_may_be_replaced():
    score = scores.pairwise(lambda q, k, *, w: w * (q @ k), w=1.0)
    twice = score.replace(leaves={"w": jnp.asarray(2.0)})
    np.testing.assert_allclose(evaluated(twice), 2 * evaluated(score), rtol=1e-6)


def test_queries_and_keys_of_two_depths():
    with pytest.raises(ValueError, match=r"one depth d: q has 3, k has 2"):
        attend(jnp.ones((5, 2, 3)), jnp.ones((5, 2, 2)), jnp.ones((5, 2, 2)))
    corner = Rule(scores.pairwise(lambda q, k: q.sum() * k[0]))
    assert attend(
        jnp.ones((5, 2, 3)), jnp.ones((5, 2, 2)), jnp.ones((5, 2, 2)), rule=corner
    ).shape == (5, 2, 2)


@pytest.mark.parametrize("scale", [[1.0, 2.0, 3.0], [[1.0]]])
def test_a_scale_has_a_number_per_query_head(scale):
    with pytest.raises(
        ValueError, match=r"scaled_dot\(scale\) must be a scalar or one per query head, \(2,\)"
    ):
        attend(
            jnp.ones((5, 2, 3)),
            jnp.ones((5, 2, 3)),
            jnp.ones((5, 2, 3)),
            rule=Rule(scores.scaled_dot(scale)),
        )


def test_a_pairwise_score_returns_a_scalar():
    with pytest.raises(
        ValueError, match=r"pairwise: <lambda> must return a scalar.*got shape \(3,\)"
    ):
        evaluated(scores.pairwise(lambda q, k: q * k))
