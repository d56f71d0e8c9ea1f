"""Swin: attention inside windows of an image, which are shifted in every other block."""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.convolution import PatchEmbedding, expect_images, pair
from attn_jax.modules.watching import attention_maps
from attn_jax.modules.windows import PatchMerging, WindowBlock

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class SwinConfig:
    """The sizes of a Swin Transformer; the defaults are Swin-T.

    Args:
      patch: height and width of a patch, in pixels; or one number for both.
      channels: c, of the images.
      classes: v.
      head: what a call returns: "class", a linear map of the mean over all places; "pooler", that
        mean.
      width: m, of the first stage; each stage has twice that of the one before.
      depths: blocks of each stage.
      heads: of each stage.
      window: of the side of a window, in patches.
      ratio: of the width of a feed-forward network to that of its stage.
      activation: of the feed-forward networks.
      epsilon: of the blocks' layer normalisations and the last one.
      depth_dropout: rate at which the last block's branches are left out of an image in training;
        that of the blocks before grows evenly from 0.

    Raises:
      ValueError: an unknown head.
    """

    patch: int | tuple[int, int] = 4
    channels: int = 3
    classes: int = 1000
    head: Literal["class", "pooler"] = "class"
    width: int = 96
    depths: tuple[int, ...] = (2, 2, 6, 2)
    heads: tuple[int, ...] = (3, 6, 12, 24)
    window: int = 7
    ratio: float = 4.0
    activation: str = "gelu"
    epsilon: float = 1e-5
    depth_dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.head not in ("class", "pooler"):
            raise ValueError(f'head must be "class" or "pooler", got {self.head!r}')

    def sized(self, width: int, depths: tuple[int, ...], heads: tuple[int, ...]) -> SwinConfig:
        """The same with another width, and other stages."""
        return dataclasses.replace(self, width=width, depths=depths, heads=heads)

    def stage(self, i: int) -> BlockOptions:
        """What the blocks of a stage are made of."""
        width = self.width << i
        return BlockOptions(
            width=width,
            hidden=int(self.ratio * width),
            heads=self.heads[i],
            norm="pre",
            activation=self.activation,
            epsilon=self.epsilon,
            dropout=0.0,
        )


class Stage(nnx.Module):
    """Merges patches, but for the first stage, then mixes them in blocks."""

    def __init__(self, config: SwinConfig, i: int, *, rngs: nnx.Rngs) -> None:
        before, total = sum(config.depths[:i]), sum(config.depths)
        self.merging = PatchMerging(config.width << (i - 1), rngs=rngs) if i else None
        self.blocks = nnx.List(
            WindowBlock(
                config.stage(i),
                config.window,
                shifted=n % 2 == 1,
                depth_dropout=config.depth_dropout * (before + n) / max(total - 1, 1),
                rngs=rngs,
            )
            for n in range(config.depths[i])
        )

    def __call__(self, x: Array, *, noise: Dropout | None = None) -> Array:
        """`b y x m`, to half the rows and columns and twice the width but in the first stage."""
        x = x if self.merging is None else self.merging(x)
        for n, block in enumerate(self.blocks):
            x = block(x, noise=noise and noise.at(n))
        return x


class Swin(nnx.Module):
    """Classifies images by attention inside windows, at half the resolution in each stage.

    Images may have any size: what windows, patches or merging do not divide is padded with 0, and
    padding is looked at as any cell is. Nothing is shifted where a window is as long as a side.

    Args:
      config: the sizes.
      rngs: where the initial parameters come from.

    Raises:
      ValueError: depths and heads are not as many.

    Reference: Liu et al. (2021, Swin), figure 3.

    >>> images = jnp.ones((2, 224, 224, 3))
    >>> states = jax.eval_shape(lambda x: Swin.tiny().hidden_states(x), images)
    >>> [x.shape for x in states]
    [(2, 56, 56, 96), (2, 56, 56, 96), (2, 28, 28, 192), (2, 14, 14, 384), (2, 7, 7, 768)]
    """

    def __init__(self, config: SwinConfig = SwinConfig(), *, rngs: nnx.Rngs) -> None:
        if len(config.depths) != len(config.heads):
            raise ValueError(
                f"a stage has its depth and its heads: got {config.depths} and {config.heads}"
            )
        self.config = config
        self.patches = PatchEmbedding(config.channels, config.width, pair(config.patch), rngs=rngs)
        self.patch_norm = nnx.LayerNorm(config.width, epsilon=1e-5, rngs=rngs)
        stages = range(len(config.depths))
        self.stages = nnx.List(Stage(config, i, rngs=rngs) for i in stages)
        last = config.stage(stages[-1])
        self.norm = last.layer_norm(rngs)
        if config.head == "class":
            self.head = nnx.Linear(last.width, config.classes, rngs=rngs)

    @classmethod
    def tiny(cls, config: SwinConfig = SwinConfig(), *, rngs: nnx.Rngs | None = None) -> Self:
        """Swin-T: 28 million parameters."""
        return cls(config.sized(96, (2, 2, 6, 2), (3, 6, 12, 24)), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def small(cls, config: SwinConfig = SwinConfig(), *, rngs: nnx.Rngs | None = None) -> Self:
        """Swin-S: 50 million parameters."""
        return cls(config.sized(96, (2, 2, 18, 2), (3, 6, 12, 24)), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def base(cls, config: SwinConfig = SwinConfig(), *, rngs: nnx.Rngs | None = None) -> Self:
        """Swin-B: 88 million parameters."""
        return cls(config.sized(128, (2, 2, 18, 2), (4, 8, 16, 32)), rngs=rngs or nnx.Rngs(0))

    def __call__(self, images: Array, *, rng: Array | None = None) -> Array:
        """What the head makes of images.

        Args:
          images: `b y x c`, floating point.
          rng: a key, or one per row, `b`, to train with stochastic depth; None for none.

        Returns:
          Logits `b v`; `b m` from the head "pooler".
        """
        x = self.norm(self.hidden_states(images, rng=rng)[-1]).mean((1, 2))
        return self.head(x) if self.config.head == "class" else x

    def hidden_states(self, images: Array, *, rng: Array | None = None) -> tuple[Array, ...]:
        """The embedded patches, and what each stage makes of them: stages + 1 times `b y x m`."""
        expect_images(images, self.config.channels)
        noise = None if rng is None else Dropout(self.config.depth_dropout, rng)
        height, width = (-n % m for n, m in zip(images.shape[1:3], pair(self.config.patch)))
        images = jnp.pad(images, [(0, 0), (0, height), (0, width), (0, 0)])
        states = [self.patch_norm(self.patches(images))]
        for i, stage in enumerate(self.stages):
            states.append(stage(states[-1], noise=noise and noise.at(i)))
        return tuple(states)

    def attention_maps(self, images: Array) -> tuple[Array, ...]:
        """Where each block looks, `b w h t t` for w windows of t cells each."""
        return attention_maps(type(self).hidden_states, self, images)
