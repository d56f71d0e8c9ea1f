"""CBAM: a residual network in which every block weighs its channels, then its places."""

from __future__ import annotations

import functools
from typing import Literal

import jax
from flax import nnx

from attn_jax.functional.gates import cbam_channels, cbam_places
from attn_jax.models.resnet import ResNet, ResNetConfig
from attn_jax.modules.gates import GateNetwork

Array = jax.Array
Order = Literal["sequence", "parallel"]


class ConvolutionalBlockAttention(nnx.Module):
    r"""Channels times how much each counts, then places times how much each counts.

    .. math:: y = x\, M_c(x)\, M_p(x\, M_c(x)) \text{ in sequence,} \quad
              y = x\, M_c(x)\, M_p(x) \text{ in parallel}

    The gate of places is the paper's equation 3. (The code its authors published puts a batch
    normalisation between the convolution and the sigmoid, of which the paper does not speak.)

    Args:
      channels: c.
      reduction: of the hidden layer of the channels' network.
      kernel: height and width of what looks at the places, odd.
      order: whether places are judged after channels were weighed, or beside them.
      rngs: where the initial parameters come from.

    Raises:
      ValueError: an unknown order, or a reduction that leaves no hidden unit.

    Reference: Woo et al. (2018), equations 1 to 3; both orders: section 4.1, table 3.
    """

    def __init__(
        self,
        channels: int,
        reduction: int = 16,
        kernel: int = 7,
        order: Order = "sequence",
        *,
        rngs: nnx.Rngs,
    ) -> None:
        if order not in ("sequence", "parallel"):
            raise ValueError(f'order must be "sequence" or "parallel", got {order!r}')
        self.order = order
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
        seen = x * channels if self.order == "sequence" else x
        return channels, cbam_places(seen, self.kernel[...])


class CBAM(ResNet):
    """A residual network with channels and places weighed at the end of each branch.

    Args:
      config: the sizes.
      reduction: of the hidden layers of the gates of channels.
      kernel: of the gates of places.
      order: of the two gates.
      rngs: where the initial parameters come from.

    Reference: Woo et al. (2018), figure 3.

    >>> config = ResNetConfig((1,), bottleneck=False, width=4)
    >>> images = jax.numpy.ones((1, 32, 32, 3))
    >>> gates = jax.eval_shape(lambda x: CBAM(config, 2, rngs=nnx.Rngs(0)).gates(x), images)
    >>> [gate.shape for gate in gates[0]]
    [(1, 1, 1, 4), (1, 8, 8, 1)]
    """

    def __init__(
        self,
        config: ResNetConfig,
        reduction: int = 16,
        kernel: int = 7,
        order: Order = "sequence",
        *,
        rngs: nnx.Rngs,
    ) -> None:
        gate = functools.partial(
            ConvolutionalBlockAttention, reduction=reduction, kernel=kernel, order=order
        )
        super().__init__(config, gate=gate, rngs=rngs)
