"""Positions of every kind in a Transformer: cached decoding, what is learned, what is refused."""

import dataclasses
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Positions, Rule, biases
from attn_jax.decode.cache import Cache
from attn_jax.functional.positions import rotary
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.attention import MultiHeadAttention
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.positional import Kind, biased

SIZES = TransformerConfig(20, None, 1, 2, BlockOptions(width=8, hidden=8, heads=2), longest=6)
SOURCE, INPUTS = jnp.array([[5, 6, 7, 2, 0, 0]]), jnp.array([[1, 11, 12, 13, 14]])


def model_of(kind):
    """A model of these positions; tables that start at zero are moved away from it."""
    model = Transformer(dataclasses.replace(SIZES, positions=kind), rngs=nnx.Rngs(0))
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    shift = jax.tree.map(lambda x: x + jnp.sin(jnp.arange(x.size)).reshape(x.shape), params)
    return nnx.merge(graph, shift, rest)


@pytest.mark.slow
def test_rotated_attention_is_that_of_rotated_queries_and_keys_and_sees_only_distances():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 5, 8)), jnp.float32)
    attention = MultiHeadAttention(8, 2, turned=True, rngs=nnx.Rngs(0))
    q, k = (
        rotary(part(x).reshape(1, 5, 2, 4), jnp.arange(5))
        for part in (attention.query, attention.key)
    )
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / 2
    weights = attention.weights(x)
    np.testing.assert_allclose(weights, jax.nn.softmax(scores), atol=1e-5)
    later = Positions(7 + np.arange(5), 7 + np.arange(5))
    np.testing.assert_allclose(attention.weights(x, positions=later), weights, atol=1e-5)
    np.testing.assert_allclose(attention(x, positions=later), attention(x), atol=1e-5)


def test_a_rule_gets_the_bias_of_its_positions_beside_its_own():
    own = Rule(bias=biases.dense(jnp.ones((1, 3, 3))))
    assert biased(own, "sinusoidal", 2, bidirectional=True) is own
    assert "alibi" in str(biased(own, "alibi", 2, bidirectional=True).bias)
    assert "dense" in str(biased(own, "alibi", 2, bidirectional=True).bias)


@pytest.mark.slow
@pytest.mark.parametrize("kind", get_args(Kind))
def test_cached_steps_equal_the_full_pass_and_places_are_told_apart(kind):
    graph, state = nnx.split(model_of(kind))
    call = jax.jit(lambda state, source: nnx.merge(graph, state)(source, INPUTS))
    full = call(state, SOURCE)

    @jax.jit
    def decode(state):
        model = nnx.merge(graph, state)
        cache = Cache.start(model, SOURCE, beams=1, length=5)
        tokens = INPUTS.T[:, None]
        _, logits = jax.lax.scan(lambda cache, t: model.step(t, cache)[::-1], cache, tokens)
        return logits[:, :, 0].swapaxes(0, 1)

    np.testing.assert_allclose(decode(state), full, atol=1e-4)
    swapped = jnp.abs(call(state, SOURCE[:, jnp.array([1, 0, 2, 3, 4, 5])]) - full).max()
    assert swapped < 1e-5 if kind == "none" else swapped > 1e-3


@pytest.mark.slow
def test_layers_share_one_learned_table_on_either_side():
    params = nnx.state(model_of("t5"), nnx.Param)
    tables = [x for x in jax.tree.leaves(params) if x.shape == (32, 2)]
    assert len(tables) == 2


def test_sequences_beyond_what_was_learned_and_unknown_kinds_are_refused():
    def logits(kind, source, inputs):
        config = dataclasses.replace(SIZES, positions=kind)
        return jax.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))(source, inputs))

    long = jnp.ones((1, 7), int)
    for sides in ((long, INPUTS), (SOURCE, long)):
        with pytest.raises(ValueError, match="7 tokens is longer than the 6 positions"):
            logits("learned", *sides)
    assert logits("sinusoidal", long, long).shape == (1, 7, 20)
    with pytest.raises(
        ValueError, match=r"positions must be one of sinusoidal, learned, .* got 'rope'"
    ):
        logits("rope", SOURCE, INPUTS)
