import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attn_jax import Rule, attend, masks, transforms

RNG = np.random.default_rng(0)


@pytest.mark.usefixtures("x64")
def test_a_soft_cap_is_its_formula_and_so_is_its_gradient():
    """A33."""
    s, c = jnp.asarray(3 * RNG.normal(size=(2, 3, 4))), jnp.asarray(1.7)
    cap = jax.jit(lambda s, c: transforms.soft_cap(c)(s, 0, 0))
    np.testing.assert_allclose(cap(s, c), 1.7 * np.tanh(s / 1.7), rtol=1e-12)
    check_grads(cap, (s, c), 2, rtol=1e-5)


def test_a_capped_score_is_masked_after_it_is_capped():
    q, k, v = jnp.asarray(10 * RNG.normal(size=(3, 5, 1, 4)), jnp.float32)
    rule = Rule(transform=transforms.soft_cap(2.0), mask=masks.causal())
    s = 2 * np.tanh(np.asarray(q[:, 0] @ k[:, 0].T) / 2 / 2)
    e = np.tril(np.exp(s))
    np.testing.assert_allclose(
        attend(q, k, v, rule=rule, backend="dense")[:, 0],
        e / e.sum(1, keepdims=True) @ v[:, 0],
        rtol=1e-4,
        atol=1e-5,
    )


def test_the_gradient_of_a_cap_is_zero_at_infinity():
    slope = jax.grad(lambda s: transforms.soft_cap(3.0)(s, 0, 0))(-jnp.inf)
    assert slope == 0
