"""Networks that gate: small ones that weigh channels, or the kernels that a convolution mixes."""

from __future__ import annotations

import jax
from flax import nnx

from attn_jax.functional.gates import Bottleneck, dynamic_convolution, kernel_attention

Array = jax.Array


class GateNetwork(nnx.Module):
    """Two layers with a rectifier between, c to c / reduction to as many outputs.

    Args:
      channels: c.
      reduction: how many times fewer units the hidden layer has.
      outputs: what is weighed; the channels where None.
      rngs: where the initial parameters come from.

    Raises:
      ValueError: the reduction leaves no hidden unit.
    """

    def __init__(
        self, channels: int, reduction: int, outputs: int | None = None, *, rngs: nnx.Rngs
    ) -> None:
        if not 1 <= reduction <= channels:
            raise ValueError(
                f"reduction must be from 1 to the channels of a block, {channels}; got {reduction}"
            )
        hidden = channels // reduction
        self.down = nnx.Linear(channels, hidden, rngs=rngs)
        self.up = nnx.Linear(hidden, channels if outputs is None else outputs, rngs=rngs)

    @property
    def arrays(self) -> Bottleneck:
        """As the gates take them."""
        down, up = self.down, self.up
        assert down.bias is not None
        assert up.bias is not None
        return Bottleneck(down.kernel[...], down.bias[...], up.kernel[...], up.bias[...])


class DynamicConvolution(nnx.Module):
    """A convolution without bias, whose kernel is a mean of several, weighed anew for each image.

    Args:
      inputs, outputs: channels.
      kernel: its height and width.
      stride: in places, both ways.
      kernels: how many are mixed.
      reduction: of the hidden layer of the network that weighs them.
      temperature: of its softmax.
      rngs: where the initial parameters come from.

    Raises:
      ValueError: fewer than one kernel, or a reduction that leaves no hidden unit.

    Reference: Chen et al. (2020, dynamic convolution), figure 3.

    >>> make = lambda: DynamicConvolution(4, 8, 3, kernels=2, rngs=nnx.Rngs(0))
    >>> jax.eval_shape(lambda x: make()(x), jax.numpy.ones((5, 6, 6, 4))).shape
    (5, 6, 6, 8)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        *,
        kernels: int = 4,
        reduction: int = 4,
        temperature: float = 1.0,
        rngs: nnx.Rngs,
    ) -> None:
        if kernels < 1:
            raise ValueError(f"expected at least one kernel to mix, got {kernels}")
        self.stride, self.temperature = stride, temperature
        self.network = GateNetwork(inputs, reduction, kernels, rngs=rngs)
        initial = nnx.initializers.variance_scaling(
            2.0, "fan_out", "normal", in_axis=-2, out_axis=-1, batch_axis=0
        )
        self.kernels = nnx.Param(initial(rngs.params(), (kernels, kernel, kernel, inputs, outputs)))

    def __call__(self, x: Array) -> Array:
        """`*b y x c` to `*b y/stride x/stride o`; the border is padded with 0."""
        return dynamic_convolution(x, self.weights(x), self.kernels[...], stride=self.stride)

    def weights(self, x: Array) -> Array:
        """How much each kernel counts for each image, `*b k`, of sum 1."""
        return kernel_attention(x, self.network.arrays, self.temperature)
