import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend, masks, transforms

RNG = np.random.default_rng(0)


@pytest.mark.usefixtures("x64")
def test_a_soft_cap_is_its_formula_and_so_is_its_gradient():
    """A33."""
    s, c = 3 * RNG.normal(size=(2, 3, 4)), 1.7

    def total(s, c):
        return (transforms.soft_cap(c)(s, 0, 0) ** 2).sum()

    value, (of_s, of_c) = jax.jit(jax.value_and_grad(total, (0, 1)))(jnp.asarray(s), c)

    def moved(step_s, step_c):
        return np.square((c + step_c) * np.tanh((s + step_s) / (c + step_c))).sum()

    assert value == pytest.approx(moved(0, 0), rel=1e-12)
    assert of_s.sum() == pytest.approx((moved(1e-6, 0) - moved(-1e-6, 0)) / 2e-6, rel=1e-6)
    assert of_c == pytest.approx((moved(0, 1e-6) - moved(0, -1e-6)) / 2e-6, rel=1e-6)


def test_a_capped_score_is_masked_after_it_is_capped():
    q, k, v = jnp.asarray(10 * RNG.normal(size=(3, 5, 1, 4)), jnp.float32)
    rule = Rule(transform=transforms.soft_cap(2.0), mask=masks.causal())
    s = 2 * np.tanh(np.asarray(q[:, 0] @ k[:, 0].T) / 2 / 2)
    e = np.tril(np.exp(s))
    y = jax.jit(lambda *x: attend(*x, rule=rule, backend="dense"))(q, k, v)
    np.testing.assert_allclose(y[:, 0], e / e.sum(1, keepdims=True) @ v[:, 0], rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_cap_is_zero_at_infinity():
    slope = jax.grad(lambda s: transforms.soft_cap(3.0)(s, 0, 0))(-jnp.inf)
    assert slope == 0
