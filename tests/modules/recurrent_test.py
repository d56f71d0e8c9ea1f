"""Gated recurrent units against their formula, and padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.modules.recurrent import GRU, BidirectionalGRU


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def layer():
    return BidirectionalGRU(3, 4, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def states(layer):
    return jax.jit(lambda x, real: layer(x, real=real))


def by_hand(cell, x):
    """The equations, one sequence and one number at a time."""
    w, b, u, c = (
        np.asarray(part[...], np.float64).reshape(-1, 3, cell.hidden)
        for part in (
            cell.inputs.kernel, cell.inputs.bias, cell.recurrence.kernel, cell.recurrence.bias,
        )
    )  # fmt: skip
    h, found = np.zeros(cell.hidden), []
    for row in x:
        from_x, from_h = np.tensordot(row, w, 1) + b[0], np.tensordot(h, u, 1) + c[0]
        r, z = 1 / (1 + np.exp(-(from_x + from_h)[:2]))
        h = (1 - z) * np.tanh(from_x[2] + r * from_h[2]) + z * h
        found.append(h)
    return np.array(found)


def test_each_direction_follows_the_formula_and_padding_is_passed_over(layer, states):
    x, real = normal(0, 2, 6, 3), np.arange(6) < np.array([[6], [4]])
    x[1, 4:] = 9.0
    found = states(x, real)
    for row, length in enumerate((6, 4)):
        ahead = by_hand(layer.forward, x[row, :length])
        back = by_hand(layer.backward, x[row, :length][::-1])[::-1]
        np.testing.assert_allclose(found[row, :length, :4], ahead, atol=1e-5)
        np.testing.assert_allclose(found[row, :length, 4:], back, atol=1e-5)
    np.testing.assert_array_equal(found[1, 4:, :4], np.repeat(found[1, 3:4, :4], 2, 0))
    assert (found[1, 4:, 4:] == 0).all()


@pytest.mark.slow
def test_padding_moves_nothing(states):
    x, real = normal(0, 2, 6, 3), np.arange(6) < np.array([[6], [4]])
    gradient = jax.grad(lambda x: states(x, real).sum())(x)
    assert (gradient[1, 4:] == 0).all()
    assert (gradient[1, :4] != 0).all()


@pytest.mark.slow
def test_a_walk_goes_on_from_a_state():
    cell = GRU(3, 4, rngs=nnx.Rngs(1))
    x = jnp.asarray(normal(1, 1, 5, 3))
    whole = cell(x)
    rest = cell(x[:, 3:], initial=whole[:, 2])
    np.testing.assert_allclose(rest, whole[:, 3:], atol=1e-6)
    np.testing.assert_allclose(
        cell.step(cell.inputs(x[:, 0]), jnp.zeros((1, 4))), whole[:, 0], atol=1e-6
    )
