"""Multi-head attention against its formula in float64 numpy, and what a module promises."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Dropout, Rule, biases, masks, normalizers, trainable
from attn_jax.decode.cache import KeyValues
from attn_jax.modules.attention import MultiHeadAttention

WIDTH, HEADS = 12, 4


def inputs(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape)


def formula(attention, x, memory, allowed):
    """Concatenated heads of softmax(QK^T / sqrt(d)) V, written out in float64."""

    def project(part, y, heads):
        kernel, bias = (np.float64(part.kernel[...]), np.float64(part.bias[...]))
        return (np.float64(y) @ kernel + bias).reshape(*y.shape[:-1], heads, -1)

    q = project(attention.query, x, attention.heads)
    k, v = (project(p, memory, attention.groups) for p in (attention.key, attention.value))
    heads = []
    for i in range(attention.heads):
        j = i // (attention.heads // attention.groups)
        scores = np.einsum("btd,bsd->bts", q[:, :, i], k[:, :, j]) / np.sqrt(q.shape[-1])
        scores = np.where(allowed, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        heads.append(weights @ v[:, :, j])
    out = attention.out
    joined = np.concatenate(heads, -1)
    return joined @ np.float64(out.kernel[...]) + np.float64(out.bias[...])


@pytest.mark.parametrize("groups", [2, *(pytest.param(g, marks=pytest.mark.slow) for g in (4, 1))])
def test_it_is_the_formula_for_self_and_cross_attention_and_grouped_queries(groups):
    attention = MultiHeadAttention(WIDTH, HEADS, key_value_heads=groups, rngs=nnx.Rngs(1))
    x, memory = inputs(2, 5, WIDTH), inputs(2, 7, WIDTH, seed=1)
    causal = np.tril(np.ones((5, 5), bool))
    np.testing.assert_allclose(
        attention(x, mask=masks.causal()), formula(attention, x, x, causal), atol=2e-6
    )
    real = np.arange(7) < np.array([[4], [7]])
    np.testing.assert_allclose(
        attention(x, memory, mask=masks.valid(real)),
        formula(attention, x, memory, real[:, None, :]),
        atol=2e-6,
    )


def test_decoding_a_token_at_a_time_with_a_cache_equals_the_full_pass():  # A7
    attention = MultiHeadAttention(
        WIDTH, HEADS, key_value_heads=2, rule=Rule(mask=masks.causal()), rngs=nnx.Rngs(0)
    )
    x = inputs(2, 5, WIDTH)
    full, cache = attention(x), KeyValues.empty((2,), 8, 2, 3)
    for t in range(5):
        y, cache = attention.step(x[:, t : t + 1], cache)
        np.testing.assert_allclose(y[:, 0], full[:, t], atol=1e-6)
    two, _ = attention.step(x[:, 1:3], attention.step(x[:, :1], KeyValues.empty((2,), 8, 2, 3))[1])
    np.testing.assert_allclose(two, full[:, 1:3], atol=1e-6)


@pytest.mark.slow
def test_dropout_configured_does_not_change_what_a_query_may_see():  # A6
    attention = MultiHeadAttention(
        WIDTH, HEADS, rule=Rule(mask=masks.causal()), dropout=0.5, rngs=nnx.Rngs(0)
    )
    x, noise = inputs(1, 3, WIDTH), Dropout(0.1, jax.random.key(3))

    def first(x):
        return attention(x, noise=noise)[0, 0].sum()

    gradient = jax.grad(first)(x)[0]
    assert (gradient[1:] == 0).all()
    assert (gradient[0] != 0).any()


def test_weights_are_those_that_multiply_the_values():  # A19
    attention = MultiHeadAttention(WIDTH, HEADS, rngs=nnx.Rngs(0))
    x = inputs(2, 5, WIDTH)
    weights = attention.weights(x, mask=masks.causal())
    _, v = attention.project(x)
    y = jnp.einsum("bhts,bshe->bthe", weights, v).reshape(2, 5, WIDTH)
    np.testing.assert_allclose(attention.out(y), attention(x, mask=masks.causal()), atol=1e-6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


@pytest.mark.slow
def test_a_rule_put_into_a_module_is_used_and_trains():
    attention = MultiHeadAttention(WIDTH, HEADS, rngs=nnx.Rngs(0))
    x = inputs(2, 5, WIDTH)
    plain = attention(x)
    table = jnp.linspace(0, 3, 25).reshape(5, 5)
    attention.rule = trainable(
        Rule(bias=biases.dense(table), normalizer=normalizers.softmax(sink=0.0))
    )
    assert jnp.abs(attention(x) - plain).max() > 1e-3
    graph, parameters, _ = nnx.split(attention, nnx.Param, ...)

    def loss(parameters):
        return (nnx.merge(graph, parameters)(x) ** 2).sum()

    gradient = jax.grad(loss)(parameters)
    assert jnp.abs(gradient["rule"]["bias"]["array"][...]).max() > 0
    assert jnp.abs(gradient["rule"]["normalizer"]["sink"][...]).max() > 0


def test_a_module_is_a_pure_function_of_its_state_under_jit():
    attention = MultiHeadAttention(WIDTH, HEADS, rngs=nnx.Rngs(0))
    x = inputs(2, 5, WIDTH)
    graph, state = nnx.split(attention)
    jitted = jax.jit(lambda state, x: nnx.merge(graph, state)(x))
    chex.assert_trees_all_close(jitted(state, x), attention(x), atol=1e-6)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="width 12, 5 heads"):
        MultiHeadAttention(WIDTH, 5, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="3 key and value heads, 4 heads"):
        MultiHeadAttention(WIDTH, HEADS, key_value_heads=3, rngs=nnx.Rngs(0))
