"""dense biases and sums of biases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attn_jax
from attn_jax import Rule, biases, masks
from attn_jax.functional.tiles import Range, whole

attend = jax.jit(attn_jax.attend)
RNG = np.random.default_rng(0)
Q, K, V = jnp.asarray(RNG.normal(size=(3, 2, 4, 2, 3)), jnp.float32)
SHAPES = [(), (4,), (2, 1, 1), (1, 2, 4, 4), (2, 1, 4, 1)]


def by_hand(bias):
    logits = jnp.einsum("bthd,bshd->bhts", Q, K) / np.sqrt(3) + bias
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(logits), V)


def by_rule(bias):
    return attend(Q, K, V, rule=Rule(bias=biases.dense(bias)))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bias_is_added_and_its_gradient_sums_over_what_it_was_broadcast_to(shape):
    """A12: 1 h t s with two rows of a batch."""
    bias = jnp.asarray(RNG.normal(size=shape), jnp.float32)

    @jax.jit
    def value_and_slope(bias):
        ways = [jax.value_and_grad(lambda b, f=f: (f(b) ** 3).sum()) for f in (by_rule, by_hand)]
        return [way(bias) for way in ways]

    (value, slope), (expected_value, expected_slope) = value_and_slope(bias)
    assert slope.shape == shape
    np.testing.assert_allclose(value, expected_value, rtol=1e-4)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-3, atol=1e-5)


def test_biases_add():
    a, b = (jnp.asarray(RNG.normal(size=s), jnp.float32) for s in ((4, 4), (2, 1, 1)))
    both = biases.dense(a) + biases.dense(b)
    np.testing.assert_allclose(
        attend(Q, K, V, rule=Rule(bias=both)), by_rule(a + b), rtol=1e-5, atol=1e-6
    )
    assert repr(both) == "dense(float32[4,4]) + dense(float32[2,1,1])"
    assert [x.shape for x in jax.tree.leaves(both)] == [(4, 4), (2, 1, 1)]
    assert not both.reads_positions


def test_a_bias_of_minus_infinity_hides_as_a_mask_does():
    hidden = np.array([[0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]], bool)
    bias = np.where(hidden, -np.inf, 0).astype(np.float32)

    @jax.jit
    def run(bias):
        y, pull = jax.vjp(by_rule, bias)
        return y, *pull(jnp.ones_like(y)), attend(Q, K, V, rule=Rule(mask=masks.explicit(~hidden)))

    y, slope, masked = run(bias)
    np.testing.assert_allclose(y, masked, rtol=1e-5, atol=1e-6)
    assert (y[:, 1] == 0).all()
    assert np.isfinite(slope).all()
    assert (slope[hidden] == 0).all()


def test_a_learned_table_of_differences():
    """A13: the table of relative positions gets the gradient of the array it makes."""
    i, j = np.indices((4, 4))

    def relative(table):
        return by_rule(table[:, j - i + 3])

    table = jnp.asarray(RNG.normal(size=(2, 7)), jnp.float32)
    slope = jax.jit(jax.grad(lambda t: (relative(t) ** 3).sum()))(table)
    dense = jax.jit(jax.grad(lambda b: (by_hand(b) ** 3).sum()))(np.asarray(table)[:, j - i + 3])
    dense = np.asarray(dense)
    summed = np.stack([[dense[h][(j - i + 3) == n].sum() for n in range(7)] for h in range(2)])
    np.testing.assert_allclose(slope, summed, rtol=1e-3, atol=1e-5)


def test_a_tile_of_a_bias():
    bias = RNG.normal(size=(2, 1, 5, 6)).astype(np.float32)
    for start in (1, jnp.asarray(1)):
        tile = whole(5, 6).part(Range(start, 2), Range(start, 3))
        np.testing.assert_array_equal(biases.dense(bias).values(tile), bias[:, :, 1:3, 1:4])
    assert biases.dense(bias[0, 0, 0]).values(whole(5, 6)).shape == (1, 6)


def test_a_list_is_a_bias():
    assert repr(biases.dense([[0, 1], [1, 0]])) == "dense(float32[2,2])"


@pytest.mark.parametrize("shape", [(3, 4), (3, 1, 4, 4), (1, 2, 2, 4, 4), (5,)])
def test_a_bias_that_does_not_broadcast_is_refused(shape):
    with pytest.raises(
        ValueError, match=r"dense\(array\) must broadcast to \*b h t s = \(2, 2, 4, 4\)"
    ):
        by_rule(jnp.zeros(shape))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: biases.dense(np.ones((2, 2), bool)), "is additive, got booleans.*masks.explicit"),
        (lambda: biases.dense([True, False]), "is additive, got booleans"),
        (lambda: biases.dense(None), r"dense\(array\) takes an array of numbers, got None"),
        (lambda: biases.dense(jnp.ones(2)) + jnp.ones(2), r"biases add to biases, got.*dense\(x\)"),
        (lambda: biases.dense(jnp.ones(2)) + masks.causal(), "biases add to biases, got causal"),
    ],
)  # fmt: skip
def test_what_is_not_a_bias_is_refused(make, says):
    with pytest.raises(TypeError, match=says):
        make()
