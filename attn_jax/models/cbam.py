"""CBAM: a residual network in which every block weighs its channels, then its places."""

from __future__ import annotations

import functools

import jax
from flax import nnx

from attn_jax.functional.gates import cbam_channels, cbam_places
from attn_jax.models.resnet import ResNet, ResNetConfig
from attn_jax.models.senet import GateNetwork

Array = jax.Array


class ConvolutionalBlockAttention(nnx.Module):
    """Channels times how much each counts, then places times how much each counts.

    The gate of places is the paper's equation 3. (The code its authors published puts a batch
    normalisation between the convolution and the sigmoid, of which the paper does not speak.)

    Args:
      channels: c.
      reduction: of the hidden layer of the channels' network.
      kernel: height and width of what looks at the places, odd.
      rngs: where the initial parameters come from.

    Reference: Woo et al. (2018), equations 1 to 3.
    """

    def __init__(
        self, channels: int, reduction: int = 16, kernel: int = 7, *, rngs: nnx.Rngs
    ) -> None:
        self.network = GateNetwork(channels, reduction, rngs=rngs)
        initial = nnx.initializers.lecun_normal()
        self.kernel = nnx.Param(initial(rngs.params(), (kernel, kernel, 2, 1)))

    def __call__(self, x: Array) -> Array:
        """`*b y x c` to `*b y x c`."""
        channels, places = self.weights(x)
        return x * channels * places

    def weights(self, x: Array) -> tuple[Array, Array]:
        """The gates of channels, `*b 1 1 c`, and of places, `*b y x 1`; in [0, 1]."""
        channels = cbam_channels(x, self.network.arrays)
        return channels, cbam_places(x * channels, self.kernel[...])


class CBAM(ResNet):
    """A residual network with channels and places weighed at the end of each branch.

    Args:
      config: the sizes.
      reduction: of the hidden layers of the gates of channels.
      kernel: of the gates of places.
      rngs: where the initial parameters come from.

    Reference: Woo et al. (2018), figure 3.

    >>> config = ResNetConfig((1,), bottleneck=False, width=4)
    >>> images = jax.numpy.ones((1, 32, 32, 3))
    >>> gates = jax.eval_shape(lambda x: CBAM(config, 2, rngs=nnx.Rngs(0)).gates(x), images)
    >>> [gate.shape for gate in gates[0]]
    [(1, 1, 1, 4), (1, 8, 8, 1)]
    """

    def __init__(
        self, config: ResNetConfig, reduction: int = 16, kernel: int = 7, *, rngs: nnx.Rngs
    ) -> None:
        gate = functools.partial(ConvolutionalBlockAttention, reduction=reduction, kernel=kernel)
        super().__init__(config, gate=gate, rngs=rngs)
