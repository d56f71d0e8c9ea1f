"""Residual networks, the ground that gates of channels and places stand on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any, Literal, Self

import jax
from flax import nnx

from attn_jax.modules.convolution import BatchRecord, ConvNorm, expect_images
from attn_jax.modules.residual import Gate, ResidualBlock

Array = jax.Array


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
      kernels: how many each convolution of 3 × 3 in a block mixes anew for each image; 1 for a plain
        one, else see :class:`attn_jax.modules.gates.DynamicConvolution`.

    Raises:
      ValueError: an unknown stem.
    """

    depths: tuple[int, ...] = (3, 4, 6, 3)
    bottleneck: bool = True
    width: int = 64
    channels: int = 3
    classes: int = 1000
    stem: Literal["large", "small"] = "large"
    kernels: int = 1

    def __post_init__(self) -> None:
        if self.stem not in ("large", "small"):
            raise ValueError(f'stem must be "large" or "small", got {self.stem!r}')


class ResNet(nnx.Module):
    """Classifies images.

    Args:
      config: the sizes.
      gate: ``(channels, rngs=…) -> Gate``, made for each block; None for none.
      gated: the stages whose blocks have it, from 0; all where None.
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
        gated: Collection[int] | None = None,
        rngs: nnx.Rngs,
    ) -> None:
        self.config = config
        kernel, stride = (7, 2) if config.stem == "large" else (3, 1)
        self.stem = ConvNorm(config.channels, config.width, kernel, stride, rngs=rngs)
        blocks, inputs = [], config.width
        for stage, depth in enumerate(config.depths):
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                sizes = inputs, config.width << stage, stride, config.bottleneck, config.kernels
                block = ResidualBlock(*sizes, rngs=rngs)
                if gate is not None and (gated is None or stage in gated):
                    block.gate = gate(block.outputs, rngs=rngs)
                blocks.append(block)
                inputs = block.outputs
        self.blocks = nnx.List(blocks)
        self.head = nnx.Linear(inputs, config.classes, rngs=rngs)

    @classmethod
    def resnet18(cls, *, classes: int = 1000, rngs: nnx.Rngs | None = None) -> Self:
        """Eight blocks of two convolutions."""
        config = ResNetConfig((2, 2, 2, 2), bottleneck=False, classes=classes)
        return cls(config, rngs=rngs or nnx.Rngs(0))

    @classmethod
    def resnet34(cls, *, classes: int = 1000, rngs: nnx.Rngs | None = None) -> Self:
        """Sixteen blocks of two convolutions."""
        config = ResNetConfig((3, 4, 6, 3), bottleneck=False, classes=classes)
        return cls(config, rngs=rngs or nnx.Rngs(0))

    @classmethod
    def resnet50(cls, *, classes: int = 1000, rngs: nnx.Rngs | None = None) -> Self:
        """Sixteen blocks of three convolutions."""
        return cls(ResNetConfig((3, 4, 6, 3), classes=classes), rngs=rngs or nnx.Rngs(0))

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
