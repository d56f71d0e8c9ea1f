"""ImageGPT: GPT-2 that reads the colours of an image, row by row, and says which colour follows."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.rule import Rule
from attn_jax.models.gpt import gpt_blocks
from attn_jax.modules.block_options import BlockOptions
from attn_jax.modules.causal_stack import CausalStack, StackConfig
from attn_jax.modules.convolution import expect_channels
from attn_jax.modules.embeddings import TokenEmbedding

Array = jax.Array


def _blocks(width: int, heads: int) -> BlockOptions:
    return dataclasses.replace(gpt_blocks(width, heads), activation="gelu_sigmoid", centred=False)


@dataclasses.dataclass(frozen=True)
class ImageGPTConfig(StackConfig):
    """The sizes of an ImageGPT; the defaults are iGPT-S, for images of 32 × 32 in 512 colours.

    Args:
      vocabulary: how many colours there are, and one more: the token that starts an image.
      positions: how many pixels an image has at most.
      layers: how many blocks.
      blocks: what the blocks are made of.
      tied: False: the start token, which never follows, has an embedding and no logit.
      head: what a call returns: "colours", the logits of what follows each; "class", those of a
        linear map of the mean of the states, `b l`.
      classes: how many, of the head "class".

    Raises:
      ValueError: tied tables, or an unknown head.
    """

    vocabulary: int = 513
    positions: int = 1024
    layers: int = 24
    blocks: BlockOptions = dataclasses.field(default_factory=lambda: _blocks(512, 8))
    tied: bool = False
    head: Literal["colours", "class"] = "colours"
    classes: int = 1000

    def __post_init__(self) -> None:
        if self.tied:
            raise ValueError("the start token has no logit, so that the tables are not tied")
        if self.head not in ("colours", "class"):
            raise ValueError(f'head must be "colours" or "class", got {self.head!r}')


class ImageGPT(CausalStack):
    """GPT-2 for images: divided by the root mean square, never centred; and a token that starts.

    It is called with colours, `b t`, as of :func:`nearest`, after a start token.

    Args:
      config: the sizes and the head.
      rule: the mechanism of all attention; a causal mask joins it.
      rngs: where the initial parameters come from.

    Reference: Chen et al. (2020, generative pretraining from pixels), section 2.

    >>> config = ImageGPTConfig(vocabulary=5, positions=6, layers=1, blocks=_blocks(8, 2))
    >>> colours = jnp.array([[0, 3, 3, 1]])
    >>> jax.eval_shape(lambda x: ImageGPT(config, rngs=nnx.Rngs(0))(x), colours).shape
    (1, 4, 4)
    """

    config: ImageGPTConfig
    output: Any

    def __init__(
        self,
        config: ImageGPTConfig = ImageGPTConfig(),
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(config, rule=rule, rngs=rngs)
        width = config.blocks.width
        if config.head == "class":
            self.output = nnx.Linear(width, config.classes, use_bias=False, rngs=rngs)
        else:
            self.output = TokenEmbedding(config.vocabulary - 1, width, rngs=rngs)

    @classmethod
    def small(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """iGPT-S: 76 million parameters, for images of 32 × 32."""
        return cls._of(24, 512, rngs)

    @classmethod
    def medium(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """iGPT-M: 455 million parameters."""
        return cls._of(36, 1024, rngs)

    @classmethod
    def large(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """iGPT-L: 1.4 billion parameters."""
        return cls._of(48, 1536, rngs, heads=16)

    @classmethod
    def _of(cls, layers: int, width: int, rngs: nnx.Rngs | None, heads: int = 8) -> Self:
        config = ImageGPTConfig(layers=layers, blocks=_blocks(width, heads))
        return cls(config, rngs=rngs or nnx.Rngs(0))

    def _said(self, ids: Array, x: Array) -> Array:
        return self.output(x.mean(-2)) if self.config.head == "class" else self._logits(x)

    def started(self, colours: Array) -> Array:
        """`b t` colours after a start token, without the last: what they are predicted from."""
        start = jnp.full_like(colours[:, :1], self.config.vocabulary - 1)
        return jnp.concatenate([start, colours[:, :-1]], axis=1)


def nearest(images: Array, palette: Array) -> Array:
    """Which colour of a palette is nearest to each pixel, row by row.

    Args:
      images: `*b y x c`, floating point.
      palette: `k c`.

    Returns:
      `*b y·x`, int32, in [0, k).

    Reference: Chen et al. (2020, generative pretraining from pixels), section 3.2.

    >>> nearest(jnp.array([[[0.1], [0.8]]]), jnp.array([[0.0], [1.0]]))
    Array([0, 1], dtype=int32)
    """
    expect_channels(images, palette.shape[-1])
    pixels = images.reshape(*images.shape[:-3], -1, 1, images.shape[-1])
    return jnp.argmin(jnp.square(pixels - palette).sum(-1), axis=-1).astype(jnp.int32)
