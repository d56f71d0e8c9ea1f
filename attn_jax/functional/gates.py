"""Gates: attention over the channels or the places of an image, and over kernels of a convolution.

Images are `*b y x c`: batch, rows, columns, channels. A gate is returned, not applied, so that it can be
looked at: ``x * squeeze_and_excitation(x, net)``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from attn_jax.functional.score import score_dtype
from attn_jax.functional.value import Array

__all__ = [
    "Bottleneck", "cbam_channels", "cbam_places", "dynamic_convolution", "kernel_attention",
    "squeeze_and_excitation",
]  # fmt: skip


class Bottleneck(NamedTuple):
    r"""A network of one narrow hidden layer, :math:`W_2^\top \max(W_1^\top x + b_1, 0) + b_2`.

    Shapes:
      w_down: `c r`.  b_down: `r`.  w_up: `r o`.  b_up: `o`.  x: `… c`.  returns: `… o`.

    Reference: Hu, Shen and Sun (2018), equation 3.

    >>> net = Bottleneck(jnp.ones((4, 2)), jnp.zeros(2), jnp.ones((2, 4)), jnp.zeros(4))
    >>> net(jnp.ones(4))
    Array([8., 8., 8., 8.], dtype=float32)
    """

    w_down: Array
    b_down: Array
    w_up: Array
    b_up: Array

    def __call__(self, x: Array) -> Array:
        """`… c` to `… o`."""
        return jax.nn.relu(x @ self.w_down + self.b_down) @ self.w_up + self.b_up


def squeeze_and_excitation(x: Array, net: Bottleneck) -> Array:
    r"""How much each channel counts, :math:`\sigma(\mathrm{net}(\bar x))`.

    The mean is over the places.

    Args:
      x: `*b y x c`.
      net: c channels to c channels.

    Returns:
      `*b 1 1 c`, of x's dtype, in [0, 1]; to be multiplied with x.

    Raises:
      ValueError: the channels of x and net differ.

    Reference: Hu, Shen and Sun (2018), equations 2 and 3.

    >>> net = Bottleneck(jnp.ones((3, 1)), jnp.zeros(1), jnp.zeros((1, 3)), jnp.zeros(3))
    >>> squeeze_and_excitation(jnp.ones((2, 4, 4, 3)), net).shape
    (2, 1, 1, 3)
    """
    _expect_channels(x, net)
    return jax.nn.sigmoid(net(_mean_place(x))).astype(x.dtype)[..., None, None, :]


def cbam_channels(x: Array, net: Bottleneck) -> Array:
    r"""How much each channel counts, :math:`\sigma(\mathrm{net}(\bar x) + \mathrm{net}(\max x))`.

    Mean and maximum are over the places.

    Args:
      x: `*b y x c`.
      net: c channels to c channels, shared by mean and maximum.

    Returns:
      `*b 1 1 c`, of x's dtype, in [0, 1]; to be multiplied with x.

    Raises:
      ValueError: the channels of x and net differ.

    Reference: Woo et al. (2018), equation 2.

    >>> net = Bottleneck(jnp.ones((3, 1)), jnp.zeros(1), jnp.zeros((1, 3)), jnp.zeros(3))
    >>> cbam_channels(jnp.ones((4, 4, 3)), net)
    Array([[[0.5, 0.5, 0.5]]], dtype=float32)
    """
    _expect_channels(x, net)
    places = x.reshape(*x.shape[:-3], -1, x.shape[-1])
    highest = _highest(places, -2).astype(score_dtype(x))
    gate = jax.nn.sigmoid(net(_mean_place(x)) + net(highest))
    return gate.astype(x.dtype)[..., None, None, :]


def cbam_places(x: Array, kernel: Array, bias: Array | float = 0.0) -> Array:
    r"""How much each place counts, :math:`\sigma(K * [\bar x; \max x] + b)`.

    Mean and maximum are over the channels.

    Args:
      x: `*b y x c`.
      kernel: K, `n n 2 1`, n odd (7 in the paper): what it makes of the mean and of the maximum around a
        place, beyond the border 0.
      bias: b, a scalar.

    Returns:
      `*b y x 1`, of x's dtype, in [0, 1]; to be multiplied with x.

    Raises:
      ValueError: the kernel is not `n n 2 1`.

    Reference: Woo et al. (2018), equation 3.

    >>> cbam_places(jnp.ones((2, 2, 3)), jnp.zeros((7, 7, 2, 1)))[..., 0]
    Array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    if kernel.ndim != 4 or kernel.shape[2:] != (2, 1):
        raise ValueError(f"gates.cbam_places(kernel) must be n n 2 1, got shape {kernel.shape}")
    x32 = x.astype(score_dtype(x))
    summary = jnp.stack([x32.mean(-1), _highest(x32, -1)], axis=-1)
    flat = summary.reshape(-1, *summary.shape[-3:])
    gate = jax.nn.sigmoid(_convolve(flat, kernel.astype(flat.dtype)) + bias)
    return gate.reshape(*x.shape[:-1], 1).astype(x.dtype)


def kernel_attention(x: Array, net: Bottleneck, temperature: Array | float = 1.0) -> Array:
    r"""How much each of several kernels counts, :math:`\mathrm{softmax}(\mathrm{net}(\bar x) / \tau)`.

    The mean is over the places.

    Args:
      x: `*b y x c`.
      net: c channels to k kernels.
      temperature: τ, positive; large (30) early in training, so that all kernels learn.

    Returns:
      `*b k`, float32 (float64 for float64), non-negative, of sum 1.

    Raises:
      ValueError: the channels of x and net differ.

    Reference: Chen et al. (2020, dynamic convolution).

    >>> net = Bottleneck(jnp.ones((3, 1)), jnp.zeros(1), jnp.zeros((1, 2)), jnp.zeros(2))
    >>> kernel_attention(jnp.ones((4, 4, 3)), net)
    Array([0.5, 0.5], dtype=float32)
    """
    _expect_channels(x, net)
    return jax.nn.softmax(net(_mean_place(x)) / temperature, axis=-1)


def dynamic_convolution(
    x: Array, weights: Array, kernels: Array, biases: Array | None = None, stride: int = 1
) -> Array:
    r"""A convolution whose kernel is mixed for each image, :math:`\sum_k \pi_k (W_k * x + b_k)`.

    Args:
      x: `*b y x c`.
      weights: π, `*b k`, as of :func:`kernel_attention`.
      kernels: W, `k n n c o`.
      biases: b, `k o`, or None.
      stride: in places, both ways; the border is padded with 0, so that stride 1 keeps the size.

    Returns:
      `*b y x o`, of x's dtype.

    Raises:
      ValueError: axes that do not fit.

    Reference: Chen et al. (2020, dynamic convolution), section 3.

    >>> x, kernels = jnp.ones((1, 2, 2, 1)), jnp.stack([jnp.ones((1, 1, 1, 1)), jnp.zeros((1, 1, 1, 1))])
    >>> dynamic_convolution(x, jnp.array([[0.25, 0.75]]), kernels)[0, ..., 0]
    Array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    expected = (*x.shape[:-3], kernels.shape[0])
    if kernels.ndim != 5 or kernels.shape[-2] != x.shape[-1] or weights.shape != expected:
        raise ValueError(
            f"dynamic_convolution needs kernels k n n c o with c = {x.shape[-1]} and weights *b k = "
            f"{expected}; got kernels {kernels.shape} and weights {weights.shape}"
        )
    images = x.reshape(-1, *x.shape[-3:])
    weights = weights.reshape(-1, weights.shape[-1])
    mixed = jnp.einsum("bk,k...->b...", weights, kernels).astype(x.dtype)
    # Products of matrices: compilers are slow at convolutions whose kernel differs by image.
    y = jnp.einsum("byxmnc,bmnco->byxo", _patches(images, kernels.shape[1:3], stride), mixed)
    if biases is not None:
        y = y + (weights @ biases).astype(x.dtype)[:, None, None, :]
    return y.reshape(*x.shape[:-3], *y.shape[-3:])


def _expect_channels(x: Array, net: Bottleneck) -> None:
    if x.ndim < 3 or x.shape[-1] != net.w_down.shape[0]:
        raise ValueError(
            f"expected an image *b y x c with c = {net.w_down.shape[0]} channels, as the network takes; "
            f"got shape {x.shape}"
        )


def _mean_place(x: Array) -> Array:
    """The mean over all places, `*b c`, float32 or float64."""
    return x.mean((-3, -2), dtype=score_dtype(x))


def _highest(x: Array, axis: int) -> Array:
    """The maximum along an axis; its gradient goes to the first that has it.

    ``x.max`` looks for that one by equality, in vain where a compiler computes x twice and rounds it
    differently, and its gradient is then NaN.
    """
    first = jnp.argmax(x, axis=axis, keepdims=True)
    return jnp.take_along_axis(x, first, axis=axis).squeeze(axis)


def _patches(x: Array, kernel: tuple[int, ...], stride: int) -> Array:
    """What a kernel m × n sees of `b y x c` at each place, padded as by `_convolve`: `b y x m n c`."""
    pads = jax.lax.padtype_to_pads(x.shape[1:3], kernel, (stride, stride), "SAME")
    x = jnp.pad(x, [(0, 0), *pads, (0, 0)])
    rows, columns = ((side - size) // stride + 1 for side, size in zip(x.shape[1:3], kernel))

    def seen(i: int, j: int) -> Array:
        return x[:, i::stride, j::stride][:, :rows, :columns]

    m, n = kernel
    return jnp.stack([jnp.stack([seen(i, j) for j in range(n)], 3) for i in range(m)], 3)


def _convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    """Images `b y x c` with a kernel `n n c o`."""
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
