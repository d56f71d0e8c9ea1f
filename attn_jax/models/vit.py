"""ViT: an image is a sequence of patches; and DeiT, which adds a token that learns from a teacher."""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.resampling import cubic
from attn_jax.functional.rule import Rule
from attn_jax.modules.blocks import BlockOptions, EncoderBlock
from attn_jax.modules.convolution import PatchEmbedding, expect_images, pair
from attn_jax.modules.layers import states_between
from attn_jax.modules.watching import attention_maps

Array = jax.Array
BLOCKS = BlockOptions(
    width=768, hidden=3072, heads=12, norm="pre", activation="gelu", epsilon=1e-12, dropout=0.0
)


@dataclasses.dataclass(frozen=True)
class ViTConfig:
    """The sizes of a ViT; the defaults are ViT-B/16.

    Args:
      image: height and width that positions are learned for, in pixels; or one number for both.
      patch: height and width of a patch, in pixels; or one number.
      channels: c, of the images.
      classes: v.
      distilled: whether a distillation token stands beside the class token.
      head: what a call returns: "class", a linear map of the class token; "teacher", the mean of
        that and one of the distillation token; "pooler", the tanh of a linear map of the class token,
        as wide as the model.
      layers: how many blocks.
      blocks: what the blocks are made of.

    Raises:
      ValueError: an unknown head, or one that reads a token that is not there.
    """

    image: int | tuple[int, int] = 224
    patch: int | tuple[int, int] = 16
    channels: int = 3
    classes: int = 1000
    distilled: bool = False
    head: Literal["class", "teacher", "pooler"] = "class"
    layers: int = 12
    blocks: BlockOptions = BLOCKS

    def __post_init__(self) -> None:
        if self.head not in ("class", "teacher", "pooler"):
            raise ValueError(f'head must be "class", "teacher" or "pooler", got {self.head!r}')
        if self.head == "teacher" and not self.distilled:
            raise ValueError('the head "teacher" reads the distillation token: set distilled=True')

    def sized(self, width: int, layers: int, heads: int) -> ViTConfig:
        """The same with another width, depth and number of heads."""
        blocks = dataclasses.replace(self.blocks, width=width, hidden=4 * width, heads=heads)
        return dataclasses.replace(self, layers=layers, blocks=blocks)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches that positions are learned for."""
        (y, x), (height, width) = pair(self.image), pair(self.patch)
        return y // height, x // width


DEIT = ViTConfig(distilled=True, head="teacher")
"""What a preset takes to be a distilled DeiT: ``ViT.small(DEIT, rngs=rngs)``."""


class ViT(nnx.Module):
    """Classifies images by attention among their patches.

    Args:
      config: the sizes.
      rule: the mechanism of all attention.
      rngs: where the initial parameters come from.

    Reference: Dosovitskiy et al. (2021), figure 1; Touvron et al. (2021, DeiT), figure 2.

    >>> images = jnp.ones((2, 224, 224, 3))
    >>> jax.eval_shape(lambda x: ViT.tiny()(x), images).shape
    (2, 1000)
    """

    def __init__(
        self,
        config: ViTConfig = ViTConfig(),
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        self.config, blocks, width = config, config.blocks, config.blocks.width
        self.patches = PatchEmbedding(config.channels, width, pair(config.patch), rngs=rngs)
        self.class_token = nnx.Param(jnp.zeros(width))
        if config.distilled:
            self.distillation_token = nnx.Param(jnp.zeros(width))
        places = 1 + config.distilled + config.grid[0] * config.grid[1]
        self.positions = nnx.Param(0.02 * jax.random.normal(rngs.params(), (places, width)))
        self.layers = nnx.List(
            EncoderBlock(blocks, rule=rule, rngs=rngs) for _ in range(config.layers)
        )
        self.norm = blocks.layer_norm(rngs)
        outputs = width if config.head == "pooler" else config.classes
        self.head = nnx.Linear(width, outputs, rngs=rngs)
        if config.head == "teacher":
            self.distillation_head = nnx.Linear(width, outputs, rngs=rngs)

    @classmethod
    def tiny(cls, config: ViTConfig = ViTConfig(), *, rngs: nnx.Rngs | None = None) -> Self:
        """ViT-Ti: 12 layers of width 192, 3 heads."""
        return cls(config.sized(192, 12, 3), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def small(cls, config: ViTConfig = ViTConfig(), *, rngs: nnx.Rngs | None = None) -> Self:
        """ViT-S: 12 layers of width 384, 6 heads."""
        return cls(config.sized(384, 12, 6), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def base(cls, config: ViTConfig = ViTConfig(), *, rngs: nnx.Rngs | None = None) -> Self:
        """ViT-B: 12 layers of width 768, 12 heads."""
        return cls(config.sized(768, 12, 12), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def large(cls, config: ViTConfig = ViTConfig(), *, rngs: nnx.Rngs | None = None) -> Self:
        """ViT-L: 24 layers of width 1024, 16 heads."""
        return cls(config.sized(1024, 24, 16), rngs=rngs or nnx.Rngs(0))

    def __call__(self, images: Array, *, rng: Array | None = None) -> Array:
        """What the head makes of images of any size that patches divide.

        Args:
          images: `b y x c`, floating point.
          rng: a key, or one per row, `b`, to train with dropout; None for none.

        Returns:
          Logits `b v`; `b m` from the head "pooler".
        """
        x = self.hidden_states(images, rng=rng)[-1]
        y = self.head(x[:, 0])
        if self.config.head == "teacher":
            return (y + self.distillation_head(x[:, 1])) / 2
        return jnp.tanh(y) if self.config.head == "pooler" else y

    def hidden_states(self, images: Array, *, rng: Array | None = None) -> tuple[Array, ...]:
        """What each block is given, and what the head reads: layers + 1 times `b n m`.

        The n tokens are the class token, the distillation token where there is one, and the patches.
        """
        *given, last = states_between(
            self.layers,
            self._embed(images),
            lambda layer, x, noise: layer(x, noise=noise),
            dropout=self.config.blocks.dropout,
            rng=rng,
            scanned=self.config.blocks.scanned,
        )
        return (*given, self.norm(last))

    def attention_maps(self, images: Array) -> tuple[Array, ...]:
        """Where each layer looks, `b h n n` each; without dropout."""
        return attention_maps(type(self).hidden_states, self, images)

    def _embed(self, images: Array) -> Array:
        expect_images(images, self.config.channels)
        x = self.patches(images)
        first = [self.class_token, *([self.distillation_token] if self.config.distilled else [])]
        b, rows, columns, m = x.shape
        table = self.positions[...].astype(x.dtype)
        learned = cubic(table[len(first) :].reshape(*self.config.grid, m), (rows, columns))
        tokens = jnp.stack([token[...].astype(x.dtype) for token in first]) + table[: len(first)]
        return jnp.concatenate(
            [jnp.broadcast_to(tokens, (b, *tokens.shape)), (x + learned).reshape(b, -1, m)], axis=1
        )
