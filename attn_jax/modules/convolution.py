"""Images `*b y x c`: patches as tokens; convolutions with batch normalisation."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.score import score_dtype
from attn_jax.modules.gates import DynamicConvolution

Array = jax.Array
EPSILON = 1e-5
MOMENTUM = 0.1


class PatchEmbedding(nnx.Module):
    r"""Each patch of an image as one vector: a convolution whose stride is the size of its kernel.

    Args:
      channels: c, of the images.
      width: m, of the vectors.
      patch: height and width of a patch, in pixels.
      rngs: where the initial parameters come from.

    Reference: Dosovitskiy et al. (2021), equation 1.

    >>> images = jnp.ones((1, 8, 8, 3))
    >>> jax.eval_shape(lambda x: PatchEmbedding(3, 8, (4, 2), rngs=nnx.Rngs(0))(x), images).shape
    (1, 2, 4, 8)
    """

    def __init__(
        self, channels: int, width: int, patch: tuple[int, int], *, rngs: nnx.Rngs
    ) -> None:
        initial = nnx.initializers.lecun_normal()
        self.kernel = nnx.Param(initial(rngs.params(), (*patch, channels, width)))
        self.bias = nnx.Param(jnp.zeros(width))

    def __call__(self, images: Array) -> Array:
        """`*b y x c` to `*b y/patch x/patch m`.

        Raises:
          ValueError: images of other channels, or whose sides patches do not divide.
        """
        kernel, bias = self.kernel[...], self.bias[...]
        height, width, channels, _ = kernel.shape
        expect_channels(images, channels)
        *batch, y, x, _ = images.shape
        if y % height or x % width:
            raise ValueError(
                f"patches of {height} × {width} do not divide an image of {y} × {x}: resize or pad it"
            )
        patches = images.reshape(*batch, y // height, height, x // width, width, channels)
        return jnp.einsum("...ypxqc,pqcm->...yxm", patches, kernel) + bias


def pair(size: int | Sequence[int]) -> tuple[int, int]:
    """Height and width, where one number stands for both."""
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def expect_images(images: Array, channels: int) -> None:
    """Raises ValueError or TypeError for anything but floating-point images `b y x c`, c given."""
    if images.ndim != 4:
        raise ValueError(f"images must be b y x c, got shape {images.shape}")
    expect_channels(images, channels)


def expect_channels(images: Array, channels: int) -> None:
    """Raises ValueError or TypeError for anything but floating-point images `*b y x c`, c given."""
    if images.ndim < 3 or images.shape[-1] != channels:
        raise ValueError(
            f"images must be *b y x c with c = {channels} channels, got shape {images.shape}"
        )
    if not jnp.issubdtype(images.dtype, jnp.floating):
        raise TypeError(f"images must be of floating point, got {images.dtype}: scale them first")


class BatchNorm(nnx.Module):
    r"""Each channel shifted and scaled to mean 0 and variance 1, then by what was learned.

    .. math:: y = \gamma\, (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta

    μ and σ² are the running statistics; or, where a call is given a :class:`BatchRecord`, those of
    the call's own batch, and the record keeps the running statistics as they are to be next. The
    module itself never changes. Statistics are float32 (float64 for float64).

    Args:
      channels: c.

    Reference: Ioffe and Szegedy (2015), algorithms 1 and 2.

    >>> norm = BatchNorm(1)
    >>> record = BatchRecord()
    >>> norm(jnp.array([[1.0], [3.0]]), record).round(3).ravel()
    Array([-1.,  1.], dtype=float32)
    >>> record.statistics(norm)["mean"][...].round(3)
    Array([0.2], dtype=float32)
    """

    def __init__(self, channels: int) -> None:
        self.scale, self.bias = nnx.Param(jnp.ones(channels)), nnx.Param(jnp.zeros(channels))
        self.mean = nnx.BatchStat(jnp.zeros(channels))
        self.variance = nnx.BatchStat(jnp.ones(channels))

    def __call__(self, x: Array, record: BatchRecord | None = None) -> Array:
        """`… c` to `… c`, of x's dtype."""
        wide = x.astype(score_dtype(x))
        if record is None:
            mean, variance = self.mean[...], self.variance[...]
        else:
            mean, variance = record.moments(self, wide)
        y = (wide - mean) * (self.scale[...] * jax.lax.rsqrt(variance + EPSILON)) + self.bias[...]
        return y.astype(x.dtype)


class BatchRecord:
    """The running statistics of a model's batch normalisations, as one call in training moves them.

    Each goes a tenth of the way to what the batch has; the variance is the unbiased estimate.
    """

    def __init__(self) -> None:
        self._moved: dict[int, dict[str, Array]] = {}

    def moments(self, norm: BatchNorm, x: Array) -> tuple[Array, Array]:
        """Mean and variance of each channel of `… c`, and a note of where they move the running ones.

        Raises:
          ValueError: a channel with fewer than two values.
        """
        count = x.size // x.shape[-1]
        if count < 2:
            raise ValueError(
                f"in training, batch normalisation needs two values a channel: got shape {x.shape}"
            )
        axes = tuple(range(x.ndim - 1))
        mean = x.mean(axes)
        variance = jnp.square(x - mean).mean(axes)
        seen = {"mean": mean, "variance": variance * (count / (count - 1))}
        self._moved[id(norm)] = {
            name: (1 - MOMENTUM) * getattr(norm, name)[...] + MOMENTUM * value
            for name, value in seen.items()
        }
        return mean, variance

    def statistics(self, model: nnx.Module) -> Any:
        """As ``nnx.state(model, nnx.BatchStat)``, moved; ``nnx.update(model, statistics)`` takes it."""
        state: Any = nnx.state(model, nnx.BatchStat)
        for path, node in nnx.iter_graph(model):
            moved = self._moved.get(id(node), {}) if isinstance(node, BatchNorm) else {}
            for name, value in moved.items():
                holder = functools.reduce(operator.getitem, path, state)
                holder[name] = holder[name].replace(value)
        return state


class ConvNorm(nnx.Module):
    """A convolution without bias, then batch normalisation.

    The border is padded with 0, by half of the kernel on each side.

    Args:
      inputs, outputs: channels.
      kernel: its height and width, odd.
      stride: in pixels, both ways.
      kernels: how many are mixed anew for each image; 1 for a plain convolution.
      rngs: where the initial parameters come from.

    Raises:
      ValueError: an even kernel, or fewer than one.

    >>> images = jnp.ones((1, 8, 8, 3))
    >>> jax.eval_shape(lambda x: ConvNorm(3, 4, 3, stride=2, rngs=nnx.Rngs(0))(x), images).shape
    (1, 4, 4, 4)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        kernels: int = 1,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        if kernel % 2 == 0:
            raise ValueError(f"the kernel of a convolution must be odd, got {kernel} × {kernel}")
        if kernels == 1:
            self.convolution: Any = nnx.Conv(
                inputs,
                outputs,
                (kernel, kernel),
                stride,
                padding=kernel // 2,
                use_bias=False,
                kernel_init=nnx.initializers.variance_scaling(2.0, "fan_out", "normal"),
                rngs=rngs,
            )
        else:
            self.convolution = DynamicConvolution(
                inputs, outputs, kernel, stride, kernels=kernels, rngs=rngs
            )
        self.norm = BatchNorm(outputs)

    def __call__(self, x: Array, record: BatchRecord | None = None) -> Array:
        """`*b y x c` to `*b y/stride x/stride o`; in training where a record is given."""
        return self.norm(self.convolution(x), record)
