"""What holds of every normalizer: its formula, its Jacobian, rows that see nothing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax import Rule, attend, features, masks, normalizers, scores

INF = np.inf


def threshold(total, scores):
    """τ with total(τ) = 1, for a total that falls as τ grows, by bisection."""
    low, high = scores.max() - 1.5, scores.max()
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) > 1 else (low, middle)
    return low


def sparsemax(s):
    return np.maximum(s - threshold(lambda tau: np.maximum(s - tau, 0).sum(), s), 0)


def entmax15(s):
    s = s / 2
    return np.maximum(s - threshold(lambda tau: (np.maximum(s - tau, 0) ** 2).sum(), s), 0) ** 2


def softmax(s):
    return np.exp(s) / np.exp(s).sum()


def l1(s):
    s = np.where(s == -INF, 0, s)
    return s / s.sum()


def share(g):
    return np.diag(g) - np.outer(g, g) / g.sum()


FORMULAS = {  # weights of a row that sees something, and their Jacobian
    "softmax": (softmax, lambda s: share(softmax(s))),
    "l1": (l1, lambda s: (np.eye(len(s)) - l1(s)[:, None]) / np.where(s == -INF, 0, s).sum()),
    "sigmoid": (
        lambda s: 1 / (1 + np.exp(-s)),
        lambda s: np.diag(np.exp(-np.abs(s)) / (1 + np.exp(-np.abs(s))) ** 2),
    ),
    "sparsemax": (sparsemax, lambda s: share((sparsemax(s) > 0).astype(float))),
    "entmax15": (entmax15, lambda s: share(np.sqrt(entmax15(s)))),
}
every_normalizer = pytest.mark.parametrize("name", FORMULAS)
ROWS = np.array([
    [0.5, 1.0, 0.7, -INF, 0.9, 0.1],
    [3.0, -INF, 3.0, 3.0, -INF, 3.0],
    [-INF, -INF, 2.0, -INF, -INF, -INF],
    [0.3, 2.0, 1.9, 0.2, 1.6, 0.9],
    [-INF] * 6,
])  # fmt: skip
SEEING = ROWS[:-1]


@functools.cache
def differentiated(name):
    """Weights, Jacobian, and a derivative of a gradient along a direction, in float64."""
    normalizer = getattr(normalizers, name)()
    rng = np.random.default_rng(0)
    pull, along = rng.normal(size=(2, *ROWS.shape))

    @jax.jit
    def answers(s):
        weights, jacobian = normalizer.weights(s), jax.vmap(jax.jacrev(normalizer.weights))(s)
        gradient = jax.grad(lambda s: (normalizer.weights(s) * pull).sum())
        return weights, jacobian, jax.jvp(gradient, (s,), (jnp.asarray(along),))[1]

    with jax.enable_x64(True):
        return pull, along, jax.tree.map(np.asarray, answers(jnp.asarray(ROWS)))


@every_normalizer
def test_weights_are_those_of_the_formula(name):
    _, _, (weights, _, _) = differentiated(name)
    np.testing.assert_allclose(weights[:-1], [FORMULAS[name][0](x) for x in SEEING], atol=1e-12)


@every_normalizer
def test_first_and_second_derivatives_are_those_of_the_formula(name):
    pull, along, (_, jacobian, second) = differentiated(name)
    _, exact = FORMULAS[name]
    for n, row in enumerate(SEEING):
        seen = row > -INF
        assert (jacobian[n][:, ~seen] == 0).all()
        np.testing.assert_allclose(
            jacobian[n][:, seen], exact(row)[:, seen], atol=1e-7, err_msg=str(row)
        )
        ahead, behind = (pull[n] @ exact(row + 1e-6 * u) for u in (along[n], -along[n]))
        difference = ((ahead - behind) / 2e-6)[seen]
        np.testing.assert_allclose(second[n][seen], difference, rtol=1e-4, atol=1e-5)


@every_normalizer
def test_a_row_that_sees_nothing_weighs_nothing_and_moves_nothing(name):
    _, _, answers = differentiated(name)
    assert all((answer[-1] == 0).all() for answer in answers)
    of_no_keys = jax.eval_shape(getattr(normalizers, name)().weights, jnp.zeros((2, 3, 0)))
    assert of_no_keys.shape == (2, 3, 0)


numbers = st.one_of(st.floats(-40, 40, width=32), st.just(-INF), st.integers(-2, 2))
SHIFTABLE = ("softmax", "sparsemax", "entmax15")
jitted = jax.jit(
    lambda s: {n: getattr(normalizers, n)().weights(s) for n in (*SHIFTABLE, "sigmoid")}
)


def weigh(s):
    return jax.tree.map(np.asarray, jitted(s))


@given(st.lists(numbers, min_size=7, max_size=7), st.floats(-100, 100), st.permutations(range(7)))
def test_laws_of_weights(row, shift, order):
    s = np.asarray(row, np.float32)
    weights, reordered, shifted = weigh(s), weigh(s[list(order)]), weigh(s + np.float32(shift))
    for name, w in weights.items():
        assert ((w >= 0) & (w <= 1)).all()
        assert (w[s == -INF] == 0).all()
        assert (np.diff(w[np.argsort(s, kind="stable")]) >= -1e-6).all(), "more score, more weight"
        np.testing.assert_allclose(reordered[name], w[list(order)], atol=1e-6)
    for name in SHIFTABLE:
        assert weights[name].sum() == pytest.approx(float((s > -INF).any()), abs=1e-5)
        np.testing.assert_allclose(shifted[name], weights[name], atol=5e-5)


@pytest.mark.parametrize("name", ["softmax", "l1", "sparsemax", "entmax15"])
def test_long_rows_sum_to_one(name):
    for spread in (0.0, 1e-3, 3.0):
        s = 5 + spread * np.random.default_rng(0).random((1, 20_000), np.float32)
        assert getattr(normalizers, name)().weights(s).sum() == pytest.approx(1, abs=2e-4)


def test_l1_of_scores_near_the_ends_of_float32():
    for size in (1e-30, 1e30):
        s = jnp.asarray([[1.0, 3.0, -INF]]) * jnp.float32(size)
        weights, pull = jax.vjp(normalizers.l1().weights, s)
        np.testing.assert_allclose(weights, [[0.25, 0.75, 0]], rtol=1e-6)
        (slope,) = pull(jnp.asarray([[1.0, 0.0, 0.0]]))
        np.testing.assert_allclose(slope * size, [[0.1875, -0.0625, 0]], rtol=1e-5)
    weights, pull = jax.vjp(normalizers.l1().weights, jnp.zeros((1, 3)))
    assert (weights == 0).all()
    assert np.isfinite(pull(jnp.ones((1, 3)))[0]).all()


def test_l1_of_a_kernel_is_linear_attention_and_of_its_exponential_a_softmax():
    q, k, v = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 1, 3)), jnp.float32)
    phi = features.elu_plus_one()
    rule = Rule(scores.kernel(phi), mask=masks.causal(), normalizer=normalizers.l1())
    table = np.tril(np.asarray(phi(q))[:, 0] @ np.asarray(phi(k))[:, 0].T)
    expected = (table @ v[:, 0]) / table.sum(1, keepdims=True)
    exponential = scores.pairwise(lambda q, k: jnp.exp(-((q - k) ** 2).sum() / 2))
    rules = rule, Rule(exponential, normalizer=normalizers.l1()), Rule(scores.gaussian())
    linear, of_kernel, of_logarithm = jax.jit(
        lambda *x: [attend(*x, rule=rule, backend="dense") for rule in rules]
    )(q, k, v)
    np.testing.assert_allclose(linear[:, 0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(of_kernel, of_logarithm, rtol=1e-4, atol=1e-6)


def test_sigmoid_has_a_bias_per_head():
    s = jnp.zeros((2, 1, 3))
    weights = normalizers.sigmoid([0.0, -np.log(3)]).weights(s)
    np.testing.assert_allclose(weights[:, 0, 0], [0.5, 0.25], rtol=1e-6)
    slope = jax.grad(lambda b: normalizers.sigmoid(b).weights(s).sum())(jnp.zeros(2))
    np.testing.assert_allclose(slope, [0.75, 0.75], rtol=1e-6)
    with pytest.raises(ValueError, match=r"sigmoid\(bias\) must be a scalar or one per query head"):
        normalizers.sigmoid([0.0] * 3).check(2)
