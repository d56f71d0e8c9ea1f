"""Linear attention at lengths where sums are long, against the formula in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend, features, masks, normalizers, scores

pytestmark = pytest.mark.slow  # long arrays

D, E = 16, 8
PHI = {"elu_plus_one": features.elu_plus_one(), "favor": features.favor(jax.random.key(0), D, 32)}
WHERE = pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"])
FEATURES = pytest.mark.parametrize("name", PHI)


def rule_of(name, causal):
    mask = masks.causal() if causal else masks.everything()
    return Rule(scores.kernel(PHI[name]), mask=mask, normalizer=normalizers.l1())


def arrays(n, dtype):
    """Values far from 0, so that what sums lose shows."""
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(n, 1, D)), rng.normal(size=(n, 1, D)), 3 + rng.normal(size=(n, 1, E))
    return tuple(jnp.asarray(x, dtype) for x in (q, k, v))


def phi(name, x, xp=np):
    """Features `n f` of queries or keys `n d`."""
    if name == "elu_plus_one":
        return xp.where(x > 0, x + 1, xp.exp(xp.minimum(x, 0)))
    directions = np.asarray(PHI["favor"].directions, np.float64)
    x = x / D**0.25
    return xp.exp(x @ directions.T - (x**2).sum(-1, keepdims=True) / 2)


@FEATURES
@WHERE
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["float32", "bfloat16"])
def test_sums_over_64k_keys(name, causal, dtype):
    n = 65_536
    x = arrays(n, dtype)
    y = jax.jit(lambda *x: attend(*x, rule=rule_of(name, causal), backend="linear"))(*x)
    assert y.dtype == dtype
    y = np.asarray(y, np.float64)[:, 0]
    q, k, v = (np.asarray(a, np.float64)[:, 0] for a in x)
    of_keys = phi(name, k)
    rounding = 2.0**-8 if dtype == jnp.bfloat16 else 1e-6
    for i in (0, 1, 127, 128, 129, 1000, n // 2, n - 2, n - 1):
        last = i + 1 if causal else n
        weights = of_keys[:last] @ phi(name, q[i])
        expected = weights @ v[:last] / weights.sum()
        np.testing.assert_allclose(y[i], expected, rtol=rounding, err_msg=f"row {i}")


@FEATURES
@WHERE
def test_gradients_over_two_thousand_keys(name, causal, x64):
    n = 2048
    x, cotangent = arrays(n, jnp.float32), np.cos(np.arange(n * E)).reshape(n, 1, E)

    def linear(q, k, v):
        return attend(q, k, v, rule=rule_of(name, causal), backend="linear")

    def formula(q, k, v):
        of_q, of_k = (phi(name, a[:, 0], jnp) for a in (q, k))
        weights = of_q @ of_k.T
        weights = jnp.tril(weights) if causal else weights
        return (weights @ v[:, 0] / weights.sum(-1, keepdims=True))[:, None]

    def pull(f, x):
        return jax.jit(lambda x: jax.vjp(f, *x)[1](jnp.asarray(cotangent, x[0].dtype)))(x)

    expected = pull(formula, tuple(a.astype(jnp.float64) for a in x))
    for slope, other, letter in zip(pull(linear, x), expected, "qkv", strict=True):
        assert slope.dtype == jnp.float32
        largest = np.abs(other).max()
        np.testing.assert_allclose(slope, other, rtol=0, atol=3e-6 * largest, err_msg=letter)


@WHERE
def test_keys_too_long_for_float32_leave_finite_numbers(causal):
    """Their features round to 0; nothing overflows, nothing is NaN."""
    q, k, v = (30 * x for x in arrays(256, jnp.float32))

    def total(*x):
        return attend(*x, rule=rule_of("favor", causal), backend="linear").sum()

    value, slopes = jax.jit(jax.value_and_grad(total, (0, 1, 2)))(q, k, v)
    assert all(np.isfinite(x).all() for x in (value, *slopes))
