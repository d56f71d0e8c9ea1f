"""Squeeze-and-excitation: a residual network in which every block weighs its channels."""

from __future__ import annotations

import functools

import jax
from flax import nnx

from attn_jax.functional.gates import squeeze_and_excitation
from attn_jax.models.resnet import ResNet, ResNetConfig
from attn_jax.modules.gates import GateNetwork

Array = jax.Array


class SqueezeExcitation(nnx.Module):
    """Channels times how much each counts by the mean of all.

    Args:
      channels: c.
      reduction: of the hidden layer.
      rngs: where the initial parameters come from.

    Reference: Hu, Shen and Sun (2018), section 3.
    """

    def __init__(self, channels: int, reduction: int = 16, *, rngs: nnx.Rngs) -> None:
        self.network = GateNetwork(channels, reduction, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        """`*b y x c` to `*b y x c`."""
        return x * self.weights(x)

    def weights(self, x: Array) -> Array:
        """The gate, `*b 1 1 c`, in [0, 1]."""
        return squeeze_and_excitation(x, self.network.arrays)


class SENet(ResNet):
    """SE-ResNet: at the end of each branch, channels are weighed by the mean of all channels.

    Args:
      config: the sizes.
      reduction: of the gates' hidden layers.
      rngs: where the initial parameters come from.

    Reference: Hu, Shen and Sun (2018), figure 3 and table 1.

    >>> config = ResNetConfig((1, 1), bottleneck=False, width=4)
    >>> images = jax.numpy.ones((1, 32, 32, 3))
    >>> gates = jax.eval_shape(lambda x: SENet(config, 2, rngs=nnx.Rngs(0)).gates(x), images)
    >>> [gate.shape for gate in gates]
    [(1, 1, 1, 4), (1, 1, 1, 8)]
    """

    def __init__(self, config: ResNetConfig, reduction: int = 16, *, rngs: nnx.Rngs) -> None:
        gate = functools.partial(SqueezeExcitation, reduction=reduction)
        super().__init__(config, gate=gate, rngs=rngs)
