"""Dynamic convolutions as modules: their formula, and the plain convolution that they contain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.modules.convolution import ConvNorm
from attn_jax.modules.gates import DynamicConvolution, GateNetwork

X = np.random.default_rng(0).normal(size=(3, 4, 5, 4)).astype(np.float32)


@pytest.mark.slow
def test_a_dynamic_convolution_is_the_mean_of_the_convolutions_it_weighs():
    @jax.jit
    def run(x):
        module = DynamicConvolution(4, 6, 3, kernels=3, temperature=2.0, rngs=nnx.Rngs(0))
        return module(x), module.weights(x), module.network.arrays, module.kernels[...]

    y, given, net, kernels = jax.device_get(run(X))
    hidden = np.maximum(X.mean((1, 2)) @ net.w_down + net.b_down, 0)
    exponentials = np.exp((hidden @ net.w_up + net.b_up) / 2.0)
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    padded = np.pad(X, ((0, 0), (1, 1), (1, 1), (0, 0)))
    each = [
        sum(padded[:, i : i + 4, j : j + 5] @ kernel[i, j] for i in range(3) for j in range(3))
        for kernel in kernels
    ]
    expected = np.einsum("bk,kbyxo->byxo", weights, each)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    np.testing.assert_allclose(given, weights, atol=1e-6)


@pytest.mark.slow
def test_equal_kernels_are_a_plain_convolution():
    @jax.jit
    def both(x):
        plain = ConvNorm(4, 6, 3, rngs=nnx.Rngs(0))
        mixed = ConvNorm(4, 6, 3, kernels=2, rngs=nnx.Rngs(1))
        kernel = plain.convolution.kernel[...]
        mixed.convolution.kernels[...] = jnp.stack([kernel, kernel])
        return plain(x), mixed(x)

    plain, mixed = both(X)
    np.testing.assert_allclose(mixed, plain, atol=1e-5)


def test_what_mixes_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one kernel to mix, got 0"):
        DynamicConvolution(4, 6, 3, kernels=0, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="from 1 to the channels of a block, 4; got 5"):
        GateNetwork(4, 5, 2, rngs=nnx.Rngs(0))


def test_a_dynamic_convolution_strides_as_a_plain_one():
    for kernels in (1, 3):

        def call(x, kernels=kernels):
            return ConvNorm(4, 6, 3, 2, kernels, rngs=nnx.Rngs(0))(x)

        assert jax.eval_shape(call, jnp.ones((2, 8, 5, 4))).shape == (2, 4, 3, 6)
