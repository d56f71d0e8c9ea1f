"""Networks of convolutions and gates: published sizes, and what is refused."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from flax import nnx

from attn_jax.functional.gates import cbam_places
from attn_jax.models.cbam import CBAM, ConvolutionalBlockAttention
from attn_jax.models.resnet import ResNet, ResNetConfig
from attn_jax.models.senet import SENet, SqueezeExcitation


def parameters(make):
    state = nnx.state(nnx.eval_shape(make), nnx.Param)
    return sum(x.size for x in jax.tree.leaves(state))


@pytest.mark.parametrize(
    ("make", "count"),
    [
        pytest.param(ResNet.resnet18, 11_689_512, marks=pytest.mark.slow),  # torchvision's table
        pytest.param(ResNet.resnet34, 21_797_672, marks=pytest.mark.slow),
        pytest.param(ResNet.resnet50, 25_557_032, marks=pytest.mark.slow),
        pytest.param(SENet.resnet50, 28_088_024, marks=pytest.mark.slow),
    ],
)
def test_presets_have_the_published_number_of_parameters(make, count):
    assert parameters(make) == count


@pytest.mark.parametrize(
    ("make", "millions"),
    [
        (SENet.resnet18, 11.78),  # Woo et al. (2018), table 4
        pytest.param(SENet.resnet34, 21.96, marks=pytest.mark.slow),
        (CBAM.resnet18, 11.78),
        pytest.param(CBAM.resnet34, 21.96, marks=pytest.mark.slow),
        pytest.param(CBAM.resnet50, 28.09, marks=pytest.mark.slow),
    ],
)
def test_presets_have_the_millions_of_parameters_that_papers_print(make, millions):
    assert round(parameters(make) / 1e6, 2) == millions


def test_what_makes_no_network_is_refused():
    with pytest.raises(ValueError, match="from 1 to the channels of a block, 4; got 16"):
        nnx.eval_shape(lambda: SENet(ResNetConfig((1,), False, 4), rngs=nnx.Rngs(0)))
    with pytest.raises(ValueError, match='"large" or "small"'):
        ResNetConfig(stem="huge")


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3])
def test_gradients_of_maxima_are_finite_however_they_are_compiled(level, x64):
    """A compiler may compute what the maximum is of twice, and round it differently."""
    rng = np.random.default_rng(0)
    x, scale, bias = (jnp.asarray(rng.normal(size=size)) for size in ((3, 18, 14, 4), 4, 4))
    kernel = jnp.asarray(rng.normal(size=(7, 7, 2, 1)))

    def loss(x, scale, bias):
        y = (x - x.mean((0, 1, 2))) * scale + bias
        y = y * jax.nn.sigmoid(y.mean((1, 2), keepdims=True))
        return jnp.square(y * cbam_places(y, kernel)).sum()

    options = {"xla_backend_optimization_level": level}
    gradients = jax.jit(jax.grad(loss, (0, 1, 2)), compiler_options=options)(x, scale, bias)
    assert all(jnp.isfinite(g).all() for g in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["sequence", "parallel"])
def test_gates_of_places_see_weighed_channels_in_sequence_and_bare_ones_in_parallel(order):
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype(np.float32)

    @jax.jit
    def run(x):
        gate = ConvolutionalBlockAttention(4, 2, 1, order, rngs=nnx.Rngs(0))
        return gate(x), gate.network.arrays, gate.kernel[...]

    y, net, kernel = jax.device_get(run(x))

    def mlp(summary):
        return np.maximum(summary @ net.w_down + net.b_down, 0) @ net.w_up + net.b_up

    channels = scipy.special.expit(mlp(x.mean((1, 2))) + mlp(x.max((1, 2))))[:, None, None]
    seen = x * channels if order == "sequence" else x
    places = scipy.special.expit(np.stack([seen.mean(-1), seen.max(-1)], -1) @ kernel[0, 0])
    np.testing.assert_allclose(y, x * channels * places, atol=1e-5)


@pytest.mark.slow
def test_gates_stand_in_the_stages_that_are_named():
    config = ResNetConfig((2, 1, 1), bottleneck=False, width=4, stem="small")

    def make(gated):
        return ResNet(
            config, gate=partial(SqueezeExcitation, reduction=2), gated=gated, rngs=nnx.Rngs(0)
        )

    for gated, expected in {None: 1111, (0,): 1100, (2,): 1, (): 0}.items():
        model = nnx.eval_shape(lambda gated=gated: make(gated))
        assert int("".join(str(int(b.gate is not None)) for b in model.blocks)) == expected


def test_an_unknown_order_of_gates_is_refused():
    with pytest.raises(ValueError, match='"sequence" or "parallel", got \'both\''):
        ConvolutionalBlockAttention(4, 2, order="both", rngs=nnx.Rngs(0))
