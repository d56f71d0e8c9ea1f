"""Measures made of a few rows at a time are those of all weights, and take no n² memory."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, masks
from attn_jax.diagnostics import measures
from attn_jax.diagnostics.rows import row_numbers
from attn_jax.modules import Look

pytestmark = pytest.mark.slow  # the doctest is the fast one

B, T, H = 2, 13, 3
real = jnp.arange(T) < jnp.array([[13], [7]])


@pytest.mark.parametrize("mask", [masks.causal() & masks.valid(real), masks.window(3, 2)])
def test_blocks_of_rows_make_the_measures_of_all(mask):
    q, k, v = 3 * jax.random.normal(jax.random.key(0), (3, B, T, H, 4))
    look = Look(q, k, v, Rule(mask=mask), None, v)
    keys = jnp.arange(T) % 3 == 0
    got = jax.jit(lambda look: row_numbers(look, real, {"thirds": keys}, most=5 * B * H * T))(look)
    w = look.weights()
    chex.assert_trees_all_close(got.positional, measures.positional(w, real), rtol=1e-5)
    chex.assert_trees_all_close(got.divergence, measures.divergence(w, real), atol=1e-6)
    chex.assert_trees_all_close(got.on["thirds"], measures.weight_on(w, keys, real), rtol=1e-5)
    chex.assert_trees_all_close(got.future, measures.weight_on_future(w), rtol=1e-5)


def test_of_two_sequences_there_is_no_future():
    q, k = jnp.ones((4, 2, 3)), jnp.ones((6, 2, 3))
    look = Look(q, k, k, Rule(), None, q)
    got = row_numbers(look, own=False)
    assert (got.future, got.positional) == (None, None)
    np.testing.assert_allclose(got.divergence, 0, atol=1e-6)
    with pytest.raises(ValueError, match="t = 4, s = 6"):
        row_numbers(look)


@pytest.mark.parametrize("ahead", [1, 0])
def test_the_last_token_of_a_long_sequence_that_sees_the_next_is_found(ahead):
    n = 5000  # more than are compared, and more than one block
    x = jnp.ones((n, 1, 1))
    late = masks.causal() | (~masks.prefix(n - 1) & masks.causal(ahead))
    got = jax.jit(lambda x: row_numbers(Look(x, x, x, Rule(mask=late), None, x)))(x)
    np.testing.assert_allclose(got.future, ahead / n, rtol=1e-3)  # one query sees one key more
