"""Residual blocks of convolutions, at whose end a gate may stand."""

from __future__ import annotations

from typing import Any, Protocol

import jax
from flax import nnx

from attn_jax.modules.convolution import BatchRecord, ConvNorm

Array = jax.Array


class Gate(Protocol):
    """What may stand at the end of a residual branch."""

    def __call__(self, x: Array) -> Array:
        """`*b y x c` to `*b y x c`."""

    def weights(self, x: Array) -> Any:
        """What x would be multiplied with."""


class ResidualBlock(nnx.Module):
    r"""Convolutions beside a shortcut, :math:`\max(\mathrm{shortcut}(x) + \mathrm{gate}(F(x)), 0)`.

    Where the block strides, its convolution of 3 × 3 does.

    Args:
      inputs: channels that come in.
      width: channels inside; as many go out, or four times as many of a bottleneck.
      stride: in pixels, both ways.
      bottleneck: three convolutions, wide outside and narrow inside; else two.
      kernels: how many each convolution of 3 × 3 mixes anew for each image; 1 for a plain one.
      rngs: where the initial parameters come from.

    Reference: He et al. (2016), figure 5.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        stride: int,
        bottleneck: bool,
        kernels: int = 1,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        self.outputs = 4 * width if bottleneck else width
        if bottleneck:
            sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, self.outputs, 1, 1)]
        else:
            sizes = [(inputs, width, 3, stride), (width, width, 3, 1)]
        self.branch = nnx.List(
            ConvNorm(*size, kernels=kernels if size[2] > 1 else 1, rngs=rngs) for size in sizes
        )
        changes = stride != 1 or inputs != self.outputs
        self.shortcut = ConvNorm(inputs, self.outputs, 1, stride, rngs=rngs) if changes else None
        self.gate: Any = nnx.data(None)

    def __call__(self, x: Array, record: BatchRecord | None = None) -> Array:
        """`*b y x c` to `*b y/stride x/stride o`."""
        shortcut = x if self.shortcut is None else self.shortcut(x, record)
        y = self.residue(x, record)
        return jax.nn.relu(shortcut + (y if self.gate is None else self.gate(y)))

    def residue(self, x: Array, record: BatchRecord | None = None) -> Array:
        """F(x), what the gate is given."""
        *first, last = self.branch
        for layer in first:
            x = jax.nn.relu(layer(x, record))
        return last(x, record)
