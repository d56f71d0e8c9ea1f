"""What holds of every score: its formula, its derivatives, its tiles, its inner product in disguise."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend, scores
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.score import inner
from tests.functional.score_formulas import (
    CASES,
    COMPACT,
    A,
    C,
    D,
    G,
    H,
    S,
    T,
    data,
    evaluate,
    expected,
    normal,
)

every_score = pytest.mark.parametrize("name", CASES)
CURVED = ("additive", "cosine per head", "gaussian", "laplace")  # second derivatives of these too
REACH = -1.5  # scores below it, near the edge of a compact support, are left out of derivatives


def curved(xp, s):
    return xp.sin(xp.where(s > REACH, s, 0)).sum()


@functools.cache
def evaluated(name):
    """In float64: the scores, their slope and curvature along a direction; scores and slope lifted."""
    case = CASES[name]
    x = (*data(case), *case.leaves)
    along = [normal(10 + n, *np.shape(a)) for n, a in enumerate(x)]

    def of_lift(q, k, *leaves):
        score = case.make(*leaves)
        lift = score.lift(score.prepare_q(q), score.prepare_k(k))
        if lift is None:
            return None
        assert lift.k.shape[-2] == G
        s = lift.scale * inner(lift.q, lift.k)
        return s if lift.offset is None else s + lift.offset[..., None]

    def of_score(q, k, *leaves):
        return evaluate(case.make(*leaves), q, k)

    def dot(a, b):
        return sum((m * n).sum() for m, n in zip(a, b, strict=True))

    @jax.jit
    def everything(x):
        slope = jax.grad(lambda x: curved(jnp, of_score(*x)))
        if name in CURVED:
            slopes, curvatures = jax.jvp(slope, (x,), (tuple(map(jnp.asarray, along)),))
            score = of_score(*x), dot(along, slopes), dot(along, curvatures)
        else:
            score = of_score(*x), dot(along, slope(x))
        if of_lift(*x) is None:
            return score, None
        slopes = jax.grad(lambda x: curved(jnp, of_lift(*x)))(x)
        return score, (of_lift(*x), dot(along, slopes))

    with jax.enable_x64(True):
        answers = everything(tuple(map(jnp.asarray, x)))
    return x, along, jax.tree.map(np.asarray, answers)


@every_score
def test_a_score_is_its_formula(name):
    x, _, answers = evaluated(name)
    s = answers[0][0]
    assert s.shape == (H, T, S)
    assert s.dtype == np.float64
    np.testing.assert_allclose(s, expected(CASES[name], *x), rtol=1e-9, atol=1e-12)
    assert np.isfinite(s).any()
    assert np.isfinite(s).all() != (name in COMPACT)


@every_score
def test_the_derivatives_of_a_score_are_those_of_its_formula(name):
    x, along, answers = evaluated(name)

    def moved(step):
        return curved(np, expected(CASES[name], *(a + step * b for a, b in zip(x, along))))

    _, slope, *curvature = answers[0]
    step = 1e-4
    np.testing.assert_allclose(slope, (moved(step) - moved(-step)) / (2 * step), rtol=1e-5)
    second = (moved(step) - 2 * moved(0) + moved(-step)) / step**2
    np.testing.assert_allclose(curvature, [second] * len(curvature), rtol=1e-4, atol=1e-5)


@every_score
def test_a_lifted_score_is_an_inner_product_and_an_offset(name):
    _, _, (of_score, of_lift) = evaluated(name)
    assert (of_lift is None) == (name in (*COMPACT, "laplace", "additive", "pairwise"))
    for lifted, pair in zip(of_lift or (), of_score):
        np.testing.assert_allclose(lifted, pair, rtol=1e-8, atol=1e-11)


def test_a_lift_is_accurate_on_data_far_from_the_origin():
    q, k = (jnp.asarray(1000 + x, jnp.float32) for x in (normal(0, 5, 1, 2), normal(1, 9, 1, 2)))
    score = scores.gaussian(1.0)
    lift = score.lift(q, k)
    exact = score.pair(q, k)
    np.testing.assert_allclose(inner(lift.q, lift.k) + lift.offset[..., None], exact, atol=1e-3)
    raw = -0.5 * ((q**2).sum(-1) + (k**2).sum(-1).T - 2 * inner(q, k)[0])
    assert np.abs(raw - exact[0]).max() > 0.05, "this is what centring is for"


@every_score
def test_scores_are_float32_whatever_q_and_k_are(name):
    case = CASES[name]
    q, k = data(case)
    score = case.make(*(jnp.asarray(x, jnp.float32) for x in case.leaves))
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
        made = jax.eval_shape(evaluate, score, jnp.asarray(q, dtype), jnp.asarray(k, dtype))
        assert (made.shape, made.dtype) == ((H, T, S), jnp.float32)


# One for each way of meeting queries and keys: a product, a sum over coordinates, a user's function.
@pytest.mark.parametrize(
    "name", ["scaled_dot per head", "additive", "gaussian per head", "pairwise"]
)
def test_batches_and_tiles_of_scores(name):
    case = CASES[name]
    score = case.make(*case.leaves)
    q, k = (jnp.asarray(x, jnp.float32) for x in data(case))

    @jax.jit
    def whole_row_and_tile(q, k):
        q, k = score.prepare_q(q), score.prepare_k(k)
        return score.pair(q, k), score.pair(q[1], k[1]), score.pair(q[:, 1:3], k[:, 2:])

    whole, row, tile = whole_row_and_tile(jnp.stack([q, 2 * q]), jnp.stack([k, 3 * k]))
    assert whole.shape == (2, H, T, S)
    np.testing.assert_allclose(whole[1], row, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(whole[:, :, 1:3, 2:], tile, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["cosine", "gaussian", "laplace", *COMPACT])
def test_gradients_are_finite_where_q_is_k_and_where_nothing_is_in_reach(name):
    q = jnp.asarray(normal(0, T, 1, D), jnp.float32).at[0].set(0)
    q, k = q.at[-1].set(100.0), q.at[-2].set(-100.0)  # a query and a key far from all others

    def loss(q, k, leaf):
        s = evaluate(getattr(scores, name)(leaf), q, k)
        return (softmax().weights(jnp.where(jnp.eye(T), -jnp.inf, s)) ** 2).sum()

    value, gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(q, k, 1.5)
    assert np.isfinite(value)
    assert all(np.isfinite(g).all() for g in gradients)
    assert any(np.any(g != 0) for g in gradients) != (name == "boxcar")


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (scores.scaled_dot(np.ones(3)), r"scaled_dot\(scale\) must be a scalar or one per query"),
        (scores.gaussian(np.ones((4, 1))), r"gaussian\(bandwidth\) must be a scalar or one per"),
        (scores.cosine(np.ones(2)), r"cosine\(temperature\) .* \(4,\); got shape \(2,\)"),
        (scores.bilinear(np.ones((3, 4))), r"bilinear\(w\) must be d c = \(3, 3\)"),
        (scores.additive(np.ones((3, 2)), np.ones((3, 4)), np.ones(2)), r"w_k: c a and v: a"),
        (scores.kernel(lambda x: x.sum(-1)), "keep all axes but the last"),
    ],
)
def test_leaves_that_do_not_fit_are_refused_by_name(score, message):
    x = jnp.ones((2, H, 3))
    with pytest.raises(ValueError, match=message):
        attend(x, x, x, rule=Rule(score), backend="dense")


def test_depths_that_differ_are_refused_unless_the_score_takes_them():
    q, k = jnp.ones((2, 1, 3)), jnp.ones((2, 1, 5))
    with pytest.raises(ValueError, match="q has 3, k has 5"):
        attend(q, k, k, rule=Rule(scores.gaussian()))
    assert attend(q, k, k, rule=Rule(scores.bilinear(np.ones((3, 5))))).shape == (2, 1, 5)


def test_the_additive_score_learns_its_vector_and_its_keys_are_projected_once():
    w_q, w_k, v = (
        jnp.asarray(normal(n, *shape), jnp.float32)
        for n, shape in enumerate([(D, A), (C, A), (A,)])
    )
    q, k = jnp.asarray(normal(7, T, 1, D)), jnp.asarray(normal(8, S, 1, C))
    hidden = jnp.tanh((q @ w_q)[:, None, 0] + (k @ w_k)[None, :, 0])
    gradient = jax.grad(lambda v: evaluate(scores.additive(w_q, w_k, v), q, k).sum())(v)
    np.testing.assert_allclose(gradient, hidden.sum((0, 1)), rtol=1e-4)
    rule = Rule(scores.additive(w_q, w_k, v))
    prepared = rule.prepare(k)
    assert prepared.keys.shape == (S, 1, A)
    np.testing.assert_allclose(
        attend(q, prepared, k, rule=rule), attend(q, k, k, rule=rule), rtol=1e-5
    )
