"""Layers that are compiled as one are the layers that were."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.layers import through

OPTIONS = BlockOptions(width=8, hidden=16, heads=2, dropout=0.3)


def transformer(blocks, layers, positions):
    return Transformer(
        TransformerConfig(11, None, layers, layers, blocks, positions=positions), rngs=nnx.Rngs(0)
    )


def gpt(blocks, layers, positions):
    return GPT(GPTConfig(11, 5, layers, blocks, kind=positions), rngs=nnx.Rngs(0))


def bert(blocks, layers, _):
    return Bert(BertConfig(11, 5, 2, layers, blocks), rngs=nnx.Rngs(0))


MODELS = {"transformer": transformer, "gpt": gpt, "bert": bert}


def gradient_of(name, scanned, layers=2, positions="t5"):
    """The loss and gradient of a model with dropout as a function of its parameters, and those."""
    model = MODELS[name](dataclasses.replace(OPTIONS, scanned=scanned), layers, positions)
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    tokens = jax.random.randint(jax.random.key(0), (2, 5), 1, 11)
    read = (tokens, tokens) if name == "transformer" else (tokens,)

    def loss(params):
        return jnp.sum(nnx.merge(graph, params, rest)(*read, rng=jax.random.key(1)) ** 2)

    return jax.value_and_grad(loss), params


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_values_gradients_and_draws_are_those_of_a_loop(name):
    (looped, params), (scanned, _) = gradient_of(name, False), gradient_of(name, True)
    for one, other in zip(*(jax.tree.leaves(jax.jit(f)(params)) for f in (looped, scanned))):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * max(1, np.abs(one).max()))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_program_does_not_grow_with_depth(name):
    def products(scanned, layers):
        f, params = gradient_of(name, scanned, layers, "sinusoidal")
        return str(jax.make_jaxpr(f)(params)).count("dot_general")

    assert products(True, 2) == products(True, 6)
    assert products(False, 6) > 2.5 * products(False, 2)


@pytest.mark.slow
def test_states_between_layers_that_are_compiled_as_one_are_those_of_a_loop():
    tokens = jnp.array([[3, 1, 4]])
    looped, scanned = (
        gpt(dataclasses.replace(OPTIONS, scanned=scanned), 3, "rotary").hidden_states(tokens)
        for scanned in (False, True)
    )
    assert len(looped) == len(scanned) == 4
    for one, other in zip(looped, scanned):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_layers_that_differ_are_compiled_one_by_one_and_it_says_so():
    layers = [nnx.Linear(2, 2, use_bias=bias, rngs=nnx.Rngs(0)) for bias in (True, False)]
    x = jnp.ones(2)
    with pytest.warns(UserWarning, match="compiled one by one"):
        found = through(layers, x, lambda layer, x, _: layer(x), scanned=True)
    np.testing.assert_array_equal(found, layers[1](layers[0](x)))
