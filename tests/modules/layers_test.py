"""Layers that are compiled as one are the layers that were."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.layers import through

OPTIONS = BlockOptions(width=8, hidden=16, heads=2, dropout=0.3)


def gradient_of(scanned, layers=2, positions="t5"):
    """The loss and gradient of a model with dropout as a function of its parameters, and those."""
    blocks = dataclasses.replace(OPTIONS, scanned=scanned)
    config = TransformerConfig(11, None, layers, layers, blocks, positions=positions)
    graph, params, rest = nnx.split(Transformer(config, rngs=nnx.Rngs(0)), nnx.Param, ...)
    tokens = jax.random.randint(jax.random.key(0), (2, 5), 1, 11)

    def loss(params):
        return jnp.sum(nnx.merge(graph, params, rest)(tokens, tokens, rng=jax.random.key(1)) ** 2)

    return jax.value_and_grad(loss), params


@pytest.mark.slow
def test_values_gradients_and_draws_are_those_of_a_loop():
    (looped, params), (scanned, _) = gradient_of(False), gradient_of(True)
    for one, other in zip(*(jax.tree.leaves(jax.jit(f)(params)) for f in (looped, scanned))):
        np.testing.assert_allclose(other, one, rtol=2e-4, atol=1e-5)


@pytest.mark.slow
def test_the_program_does_not_grow_with_depth():
    def products(scanned, layers):
        f, params = gradient_of(scanned, layers, "sinusoidal")
        return str(jax.make_jaxpr(f)(params)).count("dot_general")

    assert products(True, 2) == products(True, 6)
    assert products(False, 6) > 2.5 * products(False, 2)


def test_layers_that_differ_are_compiled_one_by_one_and_it_says_so():
    layers = [nnx.Linear(2, 2, use_bias=bias, rngs=nnx.Rngs(0)) for bias in (True, False)]
    x = jnp.ones(2)
    with pytest.warns(UserWarning, match="compiled one by one"):
        found = through(layers, x, lambda layer, x, _: layer(x), scanned=True)
    np.testing.assert_array_equal(found, layers[1](layers[0](x)))
