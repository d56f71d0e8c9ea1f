"""Residual networks, the ground that gates of channels and places stand on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Protocol, Self

import jax
from flax import nnx

from attn_jax.modules.convolution import BatchRecord, ConvNorm, expect_images

Array = jax.Array


class Gate(Protocol):
    """What may stand at the end of a residual branch."""

    def __call__(self, x: Array) -> Array:
        """`*b y x c` to `*b y x c`."""

    def weights(self, x: Array) -> Any:
        """What x would be multiplied with."""


@dataclasses.dataclass(frozen=True)
class ResNetConfig:
    """The sizes of a residual network; the defaults are ResNet-50.

    Args:
      depths: blocks of each stage; a stage halves the image and doubles the channels.
      bottleneck: blocks of three convolutions, wide outside and narrow inside; else of two.
      width: channels inside the first stage's blocks.
      channels: c, of the images.
      classes: v.
      stem: "large" begins with a convolution of 7 × 7 and pooling, which quarter the image; "small",
        for images of a few dozen pixels, with one of 3 × 3.

    Raises:
      ValueError: an unknown stem.
    """

    depths: tuple[int, ...] = (3, 4, 6, 3)
    bottleneck: bool = True
    width: int = 64
    channels: int = 3
    classes: int = 1000
    stem: Literal["large", "small"] = "large"

    def __post_init__(self) -> None:
        if self.stem not in ("large", "small"):
            raise ValueError(f'stem must be "large" or "small", got {self.stem!r}')


class ResidualBlock(nnx.Module):
    r"""Convolutions beside a shortcut, :math:`\max(\mathrm{shortcut}(x) + \mathrm{gate}(F(x)), 0)`.

    Where the block strides, its convolution of 3 × 3 does.

    Reference: He et al. (2016), figure 5.
    """

    def __init__(
        self, inputs: int, width: int, stride: int, config: ResNetConfig, *, rngs: nnx.Rngs
    ) -> None:
        self.outputs = 4 * width if config.bottleneck else width
        if config.bottleneck:
            sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, self.outputs, 1, 1)]
        else:
            sizes = [(inputs, width, 3, stride), (width, width, 3, 1)]
        self.branch = nnx.List(ConvNorm(*size, rngs=rngs) for size in sizes)
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


class ResNet(nnx.Module):
    """Classifies images.

    Args:
      config: the sizes.
      gate: ``(channels, rngs=…) -> Gate``, made for each block; None for none.
      rngs: where the initial parameters come from.

    Reference: He et al. (2016), table 1.

    >>> config = ResNetConfig((1, 1), bottleneck=False, width=4, classes=7)
    >>> images = jax.numpy.ones((2, 32, 32, 3))
    >>> jax.eval_shape(lambda x: ResNet(config, rngs=nnx.Rngs(0))(x), images).shape
    (2, 7)
    """

    def __init__(
        self,
        config: ResNetConfig,
        *,
        gate: Callable[..., Gate] | None = None,
        rngs: nnx.Rngs,
    ) -> None:
        self.config = config
        kernel, stride = (7, 2) if config.stem == "large" else (3, 1)
        self.stem = ConvNorm(config.channels, config.width, kernel, stride, rngs=rngs)
        blocks, inputs = [], config.width
        for stage, depth in enumerate(config.depths):
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                block = ResidualBlock(inputs, config.width << stage, stride, config, rngs=rngs)
                block.gate = None if gate is None else gate(block.outputs, rngs=rngs)
                blocks.append(block)
                inputs = block.outputs
        self.blocks = nnx.List(blocks)
        self.head = nnx.Linear(inputs, config.classes, rngs=rngs)

    @classmethod
    def resnet18(cls, *, classes: int = 1000, rngs: nnx.Rngs | None = None) -> Self:
        """Eight blocks of two convolutions."""
        return cls(
            ResNetConfig((2, 2, 2, 2), bottleneck=False, classes=classes),
            rngs=nnx.Rngs(0) if rngs is None else rngs,
        )

    @classmethod
    def resnet34(cls, *, classes: int = 1000, rngs: nnx.Rngs | None = None) -> Self:
        """Sixteen blocks of two convolutions."""
        return cls(
            ResNetConfig((3, 4, 6, 3), bottleneck=False, classes=classes),
            rngs=nnx.Rngs(0) if rngs is None else rngs,
        )

    @classmethod
    def resnet50(cls, *, classes: int = 1000, rngs: nnx.Rngs | None = None) -> Self:
        """Sixteen blocks of three convolutions."""
        return cls(
            ResNetConfig((3, 4, 6, 3), classes=classes), rngs=nnx.Rngs(0) if rngs is None else rngs
        )

    def __call__(self, images: Array, record: BatchRecord | None = None) -> Array:
        """Logits `b v` of images `b y x c`, by the running statistics, or a record's."""
        *_, x = self.hidden_states(images, record)
        return self.head(x.mean((-3, -2)))

    def in_training(self, images: Array) -> tuple[Array, Any]:
        """Logits by the statistics of the batch itself, and the running statistics after it.

        The model is not changed. In a step that holds parameters and statistics apart,
        ``nnx.split(model, nnx.Param, nnx.BatchStat, ...)``, they are the next ``nnx.BatchStat``; else
        ``nnx.update(model, statistics)``.
        """
        record = BatchRecord()
        logits = self(images, record)
        return logits, record.statistics(self)

    def hidden_states(self, images: Array, record: BatchRecord | None = None) -> tuple[Array, ...]:
        """The output of the stem and of each block, `b y x c`."""
        expect_images(images, self.config.channels)
        x = jax.nn.relu(self.stem(images, record))
        if self.config.stem == "large":
            x = nnx.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], record))
        return tuple(states)

    def gates(self, images: Array) -> tuple[Any, ...]:
        """What each block's gate multiplies its branch with; empty where there are no gates."""
        pairs = zip(self.blocks, self.hidden_states(images), strict=False)
        return tuple(b.gate.weights(b.residue(x)) for b, x in pairs if b.gate is not None)
