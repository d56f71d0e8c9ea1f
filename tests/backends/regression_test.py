"""Kernel regression against its textbook formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, masks, normalizers, regress, scores

RNG = np.random.default_rng(0)
X, KEYS, VALUES = RNG.normal(size=(4, 2)), RNG.normal(size=(9, 2)), RNG.normal(size=(9, 3))
KERNELS = {
    "gaussian": lambda u: np.exp(-(u**2) / 2),
    "laplace": lambda u: np.exp(-u),
    "boxcar": lambda u: np.where(u <= 1, 1.0, 0),
    "triangular": lambda u: np.maximum(1 - u, 0),
    "epanechnikov": lambda u: np.maximum(1 - u**2, 0),
}


def nadaraya_watson(kernel, x, keys, values, width):
    distance = np.linalg.norm(x[:, None] - keys[None], axis=-1)
    k = kernel(distance / width)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(k @ values / k.sum(1, keepdims=True))


@pytest.mark.parametrize("name", KERNELS)
def test_a_softmax_of_the_log_of_a_kernel_is_nadaraya_watson(name):
    rule = Rule(getattr(scores, name)(0.9))
    x = np.concatenate([X, [[50.0, 50.0]]])  # nothing is near the last point
    y = regress(*(jnp.asarray(a, jnp.float32) for a in (x, KEYS, VALUES)), rule=rule)
    expected = nadaraya_watson(KERNELS[name], x, KEYS, VALUES, 0.9)
    np.testing.assert_allclose(y[:-1], expected[:-1], rtol=1e-4, atol=1e-5)
    of_full_support = name in ("gaussian", "laplace")  # there, some observation is the nearest
    assert np.isfinite(y[-1]).all()
    assert (y[-1] != 0).all() == of_full_support


def test_scalars_and_vectors():
    rule = Rule(scores.gaussian(0.5))
    x, keys, values = (jnp.asarray(RNG.normal(size=n), jnp.float32) for n in (4, 9, 9))
    y = regress(x, keys, values, rule=rule)
    assert y.shape == (4,)
    column = regress(x[:, None], keys[:, None], values[:, None], rule=rule)
    assert column.shape == (4, 1)
    np.testing.assert_array_equal(column[:, 0], y)
    assert regress(x, keys, jnp.ones((9, 3)), rule=rule).shape == (4, 3)
    kernel = KERNELS["gaussian"]
    expected = nadaraya_watson(kernel, *(np.asarray(a)[:, None] for a in (x, keys, values)), 0.5)
    np.testing.assert_allclose(y, expected[:, 0], rtol=1e-4)


def test_leaving_one_out_predicts_each_point_from_the_others():
    x, y = (jnp.asarray(RNG.normal(size=12), jnp.float32) for _ in range(2))

    def error(bandwidth):
        rule = Rule(scores.gaussian(bandwidth)) & ~masks.diagonal()
        return jnp.square(regress(x, x, y, rule=rule) - y).mean()

    def by_hand(bandwidth):
        others = [np.delete(np.arange(12), n) for n in range(12)]
        kernel = [np.exp(-(((x[n] - x[o]) / bandwidth) ** 2) / 2) for n, o in enumerate(others)]
        return np.mean([(k @ y[o] / k.sum() - y[n]) ** 2
                        for n, (k, o) in enumerate(zip(kernel, others))])  # fmt: skip

    value, slope = jax.jit(jax.value_and_grad(error))(0.4)
    assert value == pytest.approx(by_hand(0.4), rel=1e-4)
    assert slope == pytest.approx((by_hand(0.41) - by_hand(0.39)) / 0.02, rel=0.02)


def test_a_kernel_of_ones_own_with_l1():
    rule = Rule(
        scores.pairwise(lambda q, k: 1 / (1 + ((q - k) ** 2).sum())), normalizer=normalizers.l1()
    )
    y = regress(*(jnp.asarray(a, jnp.float32) for a in (X, KEYS, VALUES)), rule=rule)
    expected = nadaraya_watson(lambda u: 1 / (1 + u**2), X, KEYS, VALUES, 1.0)
    np.testing.assert_allclose(y, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ((X, KEYS[:, 0], VALUES), ValueError, "must both be scalars"),
        ((X[None], KEYS, VALUES), ValueError, r"x as scalars, t, or vectors, t d; got shape"),
        ((X, KEYS, np.arange(9)), TypeError, "values in floating point, got int"),
        ((X, KEYS, VALUES[:5]), ValueError, "share s: k has 9, v has 5"),
        ((X, KEYS[:, :1], VALUES), ValueError, "q has 2, k has 1"),
    ],
)
def test_data_that_does_not_fit_is_refused(arguments, kind, says):
    with pytest.raises(kind, match=says):
        regress(*arguments, rule=Rule(scores.gaussian()))
