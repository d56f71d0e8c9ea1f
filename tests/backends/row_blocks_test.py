"""Weights by blocks of rows are those of the whole, whatever the rule and the block."""

import chex
import jax
import jax.numpy as jnp
import pytest

from attn_jax import Rule, attention_weights, biases, masks, normalizers
from attn_jax.backends.row_blocks import map_rows

pytestmark = pytest.mark.slow  # the doctest is the fast one

B, T, H = 2, 11, 2
real = jnp.arange(T) < jnp.array([[11], [7]])
RULES = {
    "plain": Rule(),
    "padded and causal": Rule(mask=masks.causal() & masks.valid(real)),
    "by index": Rule(mask=masks.global_tokens(queries=~real, keys=~real) | masks.window(2, 1)),
    "segments": Rule(mask=masks.segments(jnp.arange(T) // 4)),
    "explicit": Rule(mask=masks.explicit(jnp.arange(T * T).reshape(T, T) % 3 > 0)),
    "biased": Rule(bias=biases.alibi(H), mask=masks.causal()),
    "dense bias": Rule(bias=biases.dense(jnp.sin(jnp.arange(T * T)).reshape(T, T))),
    "sparsemax": Rule(normalizer=normalizers.sparsemax(), mask=masks.causal()),
    "sink": Rule(normalizer=normalizers.softmax(sink=jnp.array([0.0, 1.0]))),
}


@pytest.mark.parametrize("name", RULES)
def test_blocks_of_rows_are_the_rows(name):
    q, k = jax.random.normal(jax.random.key(0), (2, B, T, H, 4))
    whole = attention_weights(q, k, rule=RULES[name])

    @jax.jit
    def found(q, k):
        return map_rows(lambda w, i: (w, i), q, k, rule=RULES[name], most=4 * B * H * T)

    rows, i = found(q, k)
    assert rows.shape == (3, B, H, 4, T)
    assert i.ravel().tolist() == list(range(12))
    joined = jnp.moveaxis(rows, 0, 2).reshape(B, H, 12, T)
    chex.assert_trees_all_close(joined[:, :, :T], whole, atol=1e-6)
    assert (joined[:, :, T:] == 0).all()


def test_memory_is_that_of_a_block():
    x = jax.ShapeDtypeStruct((16_384, 1, 4), jnp.float32)

    def f(x):
        return map_rows(lambda w, i: w.max(-1), x, x, rule=Rule(mask=masks.causal()))

    memory = jax.jit(f).lower(x).compile().memory_analysis().temp_size_in_bytes
    assert memory < 16_384**2 / 2  # an eighth of the weights
