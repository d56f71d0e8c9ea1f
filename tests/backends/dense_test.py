"""The reference against the formula: values, gradients, shapes, dtypes, transformations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attn_jax
from attn_jax import Rule, attention_weights, biases, masks, normalizers, scores, transforms
from attn_jax.backends.dense import weighted_sum
from tests.backends import formula

attend = functools.partial(attn_jax.attend, backend="dense")
attend_with_lse = functools.partial(attn_jax.attend_with_lse, backend="dense")

SHAPES = {  # batch axes, t, s, h, g, d, e
    "plain": ((2,), 5, 5, 2, 2, 4, 4),
    "no batch axis, two key heads, t ≠ s, e ≠ d": ((), 3, 6, 4, 2, 4, 2),
    "two batch axes, one key head, t ≠ s, e ≠ d": ((2, 2), 4, 3, 2, 1, 2, 5),
    "one query, one key": ((1,), 1, 1, 1, 1, 1, 1),
}


def problem(name, seed=0):
    """Queries, keys, values in float64 and a rule with every part, with the formula's arguments."""
    batch, t, s, h, g, d, e = SHAPES[name]
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(*batch, t, h, d))
    k, v = rng.normal(size=(*batch, s, g, d)), rng.normal(size=(*batch, s, g, e))
    bias, sink, scale = rng.normal(size=(h, t, s)), rng.normal(size=h), rng.uniform(0.5, 1, h)
    allowed = rng.random((*batch, 1, t, s)) < 0.7
    rule = Rule(
        scores.scaled_dot(jnp.asarray(scale)),
        bias=biases.dense(jnp.asarray(bias)),
        mask=masks.explicit(allowed),
        normalizer=normalizers.softmax(jnp.asarray(sink)),
    )
    return (q, k, v), rule, {"allowed": allowed, "bias": bias, "sink": sink, "scale": scale}


@pytest.mark.parametrize("name", SHAPES)
def test_output_lse_and_weights_are_the_formulas(name):
    (q, k, v), rule, parts = problem(name)
    q, k, v, rule = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float32 if x.dtype != bool else bool), (q, k, v, rule)
    )
    y, lse, weights = formula.attention(q, k, v, **parts)

    @jax.jit
    def run(q, k, v, rule):
        return (*attend_with_lse(q, k, v, rule=rule), attention_weights(q, k, rule=rule))

    for actual, expected in zip(run(q, k, v, rule), (y, lse, weights), strict=True):
        assert actual.dtype == jnp.float32
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_gradients_are_finite_differences_of_the_formula():
    (q, k, v), _, parts = problem("no batch axis, two key heads, t ≠ s, e ≠ d")
    allowed = masks.explicit(parts["allowed"])
    leaves = (q, k, v, parts["bias"], parts["sink"], parts["scale"])

    def value(q, k, v, bias, sink, scale):
        y, lse, _ = formula.attention(
            q, k, v, allowed=parts["allowed"], bias=bias, sink=sink, scale=scale
        )
        return (y * weigh[0]).sum() + (lse * weigh[1]).sum()

    y, lse, _ = formula.attention(q, k, v, **parts)
    rng = np.random.default_rng(1)
    weigh = rng.normal(size=y.shape), rng.normal(size=lse.shape)

    @jax.jit
    @jax.grad
    def gradient(leaves):
        q, k, v, bias, sink, scale = leaves
        made = Rule(
            scores.scaled_dot(scale), biases.dense(bias), None, allowed, normalizers.softmax(sink)
        )
        y, lse = attend_with_lse(q, k, v, rule=made)
        return (y * weigh[0]).sum() + (lse * weigh[1]).sum()

    slopes = gradient(tuple(jnp.asarray(x) for x in leaves))
    for which, slope in enumerate(slopes):
        assert slope.dtype == jnp.float64
        step = 1e-6 * rng.normal(size=slope.shape)
        up, down = (
            [*leaves[:which], leaves[which] + d, *leaves[which + 1 :]] for d in (step, -step)
        )
        difference = (value(*up) - value(*down)) / 2
        np.testing.assert_allclose((slope * step).sum(), difference, rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_second_derivatives():
    """Forward over reverse, with a row that sees nothing, against differences of the gradient."""
    rng = np.random.default_rng(2)
    point, direction = (
        ([rng.normal(size=(3, 1, 2)) for _ in "qkv"], rng.normal(), rng.normal()) for _ in range(2)
    )

    @jax.grad
    def gradient(point):
        (q, k, v), sink, cap = point
        cap, normalizer = transforms.soft_cap(2 + cap**2), normalizers.softmax(sink)
        y = attend(q, k, v, rule=Rule(transform=cap, mask=masks.causal(-1), normalizer=normalizer))
        return (y**3).sum()

    @jax.jit
    def both(point, direction):
        moved = [
            jax.tree.map(lambda x, d, s=s: x + 1e-5 * s * d, point, direction) for s in (1, -1)
        ]
        exact = jax.jvp(gradient, (point,), (direction,))[1]
        return exact, jax.tree.map(lambda a, b: (a - b) / 2e-5, *map(gradient, moved))

    for exact, difference in zip(*map(jax.tree.leaves, both(point, direction)), strict=True):
        np.testing.assert_allclose(exact, difference, rtol=1e-6, atol=1e-8)


def test_a_soft_cap_has_its_own_slope():
    """A33."""
    rng = np.random.default_rng(3)
    q, k, v = jnp.asarray(rng.normal(size=(3, 4, 1, 4)) * 3, jnp.float32)

    def value(c):
        return (attend(q, k, v, rule=Rule(transform=transforms.soft_cap(c))) ** 2).sum()

    slope, up, down = jax.jit(lambda c, e: (jax.grad(value)(c), value(c + e), value(c - e)))(
        1.5, 1e-2
    )
    np.testing.assert_allclose(slope, (up - down) / 2e-2, rtol=1e-2)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_low_precision_comes_in_and_out_and_not_between(dtype):
    rng = np.random.default_rng(4)
    q, k, v = (jnp.asarray(rng.normal(size=(1, 64, 1, 16)), dtype) for _ in range(3))
    y, lse = attend_with_lse(q, k, v)
    expected, expected_lse, _ = formula.attention(*(np.asarray(x, np.float64) for x in (q, k, v)))
    assert (y.dtype, lse.dtype, attention_weights(q, k).dtype) == (dtype, jnp.float32, jnp.float32)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-5)
    np.testing.assert_allclose(y.astype(float), expected, atol=float(jnp.finfo(dtype).eps))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("wide", ["q", "k", "v", "qkv"])
def test_what_is_float64_stays_float64(wide):
    (q, k, v), _, _ = problem("plain")
    q, k, v = (
        x if name in wide else np.asarray(x, np.float32) for name, x in zip("qkv", (q, k, v))
    )
    y, lse = attend_with_lse(q, k, v)
    assert y.dtype == v.dtype
    assert lse.dtype == np.result_type(q, k)
    expected, expected_lse, _ = formula.attention(q, k, v)
    narrow = 1e-6 if wide != "qkv" else 1e-14
    np.testing.assert_allclose(y, expected, rtol=narrow, atol=narrow)
    np.testing.assert_allclose(lse, expected_lse, rtol=narrow)


@pytest.mark.usefixtures("x64")
def test_values_of_float64_are_summed_in_float64():
    weights = jnp.asarray([[[0.5, 0.5]]], jnp.float32)
    v = jnp.asarray([[[1.0]], [[1.0 + 1e-12]]])
    assert weighted_sum(weights, v).item() == 1.0 + 0.5e-12


def test_numpy_arrays_are_as_good_as_jaxs():
    (q, k, v), _, _ = problem("plain")
    y = attend(q, k, v)  # float64, where JAX knows float32
    assert y.dtype == jnp.float32
    np.testing.assert_allclose(y, formula.attention(q, k, v)[0], rtol=1e-5, atol=1e-6)


def test_large_scores_overflow_nothing():
    q = jnp.full((3, 1, 4), 1e4)
    y, lse = attend_with_lse(q, q, q)
    np.testing.assert_allclose(y, q, rtol=1e-6)
    np.testing.assert_allclose(lse, 2e8 + np.log(3), rtol=1e-6)
    sharp = attention_weights(q, q * jnp.array([1, 2, -1])[:, None, None])
    assert sharp[0].tolist() == [[0, 1, 0]] * 3


def test_a_batch_a_map_and_a_scan_are_one_thing():
    q, k, v = (jnp.asarray(x, jnp.float32) for x in problem("plain")[0])

    def one(q, k, v, n):
        return attend(q, k, v, rule=Rule(mask=masks.causal() & masks.lengths(n)))

    @jax.jit
    def ways(*args):
        scanned = jax.lax.scan(lambda c, x: (c, one(*x)), None, args)[1]
        q, (k, v, n) = args[0], (x[0] for x in args[1:])
        first_keys = jax.vmap(one, in_axes=(0, None, None, None))(q, k, v, n)
        return one(*args), jax.vmap(one)(*args), scanned, first_keys

    batch, mapped, scanned, first_keys = ways(q, k, v, jnp.array([4, 2]))
    np.testing.assert_allclose(mapped, batch, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scanned, batch, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(first_keys[0], batch[0], rtol=1e-5, atol=1e-6)
