import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attn_jax import normalizers
from attn_jax.functional.normalizers import softmax

INF = np.inf
SCORES = np.array(
    [[[0.5, -1.0, 2.0, -INF], [-INF] * 4], [[3.0, 3.0, 3.0, 3.0], [-INF, 0, -INF, 1]]]
)


def by_formula(scores, sink=-INF):
    """Weights and log-sum-exp, with a sink per head, in numpy."""
    sink = np.broadcast_to(sink, scores.shape[:1])[:, None, None]
    total = np.exp(scores).sum(-1, keepdims=True) + np.exp(sink)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(total > 0, np.exp(scores) / total, 0)
        return weights, np.log(total)[..., 0]


@pytest.mark.parametrize("sink", [None, 0.0, [0.5, -2.0], [-INF, 0.0], -INF, [200.0, -200.0]])
def test_softmax_is_its_formula(sink):
    normalizer = softmax() if sink is None else softmax(sink)
    weights, lse = by_formula(SCORES, -INF if sink is None else np.asarray(sink))
    scores = jnp.asarray(SCORES, jnp.float32)
    np.testing.assert_allclose(normalizer.weights(scores), weights, rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(normalizer.lse(scores), lse, rtol=1e-6)


def test_a_sink_of_zero_is_softmax_off_by_one():
    scores = jnp.asarray(SCORES, jnp.float32)
    off_by_one = jnp.exp(scores) / (1 + jnp.exp(scores).sum(-1, keepdims=True))
    np.testing.assert_allclose(softmax(0.0).weights(scores), off_by_one, rtol=1e-6)
    assert (softmax(0.0).lse(scores)[0, 1]) == 0, "a row that sees nothing sees the sink"


@pytest.mark.parametrize("scale", [0, 80, 1e4, -1e4])
def test_softmax_does_not_care_where_zero_is(scale):
    scores = jnp.asarray(SCORES, jnp.float32) + scale
    assert np.isfinite(softmax().weights(scores)).all()
    np.testing.assert_allclose(softmax().weights(scores), by_formula(SCORES)[0], atol=2e-3)


def test_no_keys_at_all():
    empty = jnp.zeros((2, 3, 0))
    assert softmax().weights(empty).shape == (2, 3, 0)
    assert (softmax().lse(empty) == -INF).all()
    assert softmax([1.0, 2.0]).lse(empty).tolist() == [[1.0] * 3, [2.0] * 3]


@pytest.mark.usefixtures("x64")
def test_softmax_has_the_derivatives_of_its_formula():
    finite = jnp.asarray(np.random.default_rng(0).normal(size=(2, 2, 4)))
    sink = jnp.asarray([0.3, -0.2])

    def both(scores, sink):
        normalizer = softmax(sink)
        return normalizer.weights(scores), normalizer.lse(scores)

    check_grads(jax.jit(both), (finite, sink), order=2, modes=("rev",), rtol=1e-5)


@pytest.mark.usefixtures("x64")
def test_where_there_is_nothing_to_see_there_is_nothing_to_differentiate():
    scores = jnp.asarray(SCORES)

    def total(scores):
        return (softmax().weights(scores) * jnp.arange(4.0)).sum()

    gradient = jax.jit(jax.grad(total))(scores)
    assert np.isfinite(gradient).all()
    assert (gradient[scores == -INF] == 0).all()

    def finite_lse(scores):
        lse = softmax().lse(scores)
        return jnp.where(jnp.isfinite(lse), lse, 0).sum()

    np.testing.assert_allclose(
        jax.jit(jax.grad(finite_lse))(scores), by_formula(SCORES)[0], rtol=1e-6
    )
    with_sink = jax.jit(jax.jacobian(lambda sink: softmax(sink).lse(scores)))(jnp.zeros(2))
    assert with_sink[0, 1, 0] == 1, "the lse of a row that sees nothing is its sink"


def test_a_sink_has_a_logit_per_query_head():
    softmax([1.0, 2.0]).check(2)
    softmax(1.0).check(2)
    for sink in ([1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(
            ValueError, match=r"softmax\(sink\) must be a scalar or one per query head"
        ):
            softmax(sink).check(2)


def test_weights_keep_the_precision_of_scores():
    for dtype in (jnp.float32, jnp.bfloat16):
        scores = jnp.asarray(SCORES, dtype)
        assert softmax().weights(scores).dtype == softmax(0.0).lse(scores).dtype == dtype
    assert repr(normalizers.softmax(sink=0.5)) == "softmax(0.5)"
