"""GPT-2: a stack of causal blocks, normalised first, that says which token follows."""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.rule import Rule
from attn_jax.modules.block_options import BlockOptions
from attn_jax.modules.causal_stack import CausalStack, StackConfig

Array = jax.Array


def gpt_blocks(width: int, heads: int) -> BlockOptions:
    """Blocks of a GPT-2: a hidden width of four times the model's, gelu by tanh, pre-norm."""
    return BlockOptions(
        width=width,
        hidden=4 * width,
        heads=heads,
        norm="pre",
        activation="gelu_tanh",
        epsilon=1e-5,
        attention_dropout=0.1,
    )


@dataclasses.dataclass(frozen=True)
class GPTConfig(StackConfig):
    """The sizes of a GPT; the defaults are the smallest published one.

    The other fields are those of :class:`attn_jax.modules.causal_stack.StackConfig`.

    Args:
      head: what a call returns: "language_model", the logits of what follows each token;
        "sequence_classification", those of a linear map of the last token's state, `b l`.
      labels: l, of a classification.
      padding: an id that is not the last token of a sequence, whatever stands behind; None for none.

    Raises:
      ValueError: an unknown head.
    """

    vocabulary: int = 50_257
    positions: int = 1024
    layers: int = 12
    blocks: BlockOptions = dataclasses.field(default_factory=lambda: gpt_blocks(768, 12))
    head: Literal["language_model", "sequence_classification"] = "language_model"
    labels: int = 2
    padding: int | None = None

    def __post_init__(self) -> None:
        if self.head not in ("language_model", "sequence_classification"):
            raise ValueError(
                f'head must be "language_model" or "sequence_classification", got {self.head!r}'
            )


class GPT(CausalStack):
    """A decoder-only language model, by default with learned positions, or a classification.

    It is the encoder of :class:`attn_jax.models.Bert` with a causal rule, normalisation before each
    sublayer and once more at the end, and no segments.

    Args:
      config: the sizes.
      rule: the mechanism of all attention; a causal mask joins it.
      rngs: where the initial parameters come from.

    Reference: Radford et al. (2019).

    >>> blocks = BlockOptions(width=8, hidden=16, heads=2, norm="pre")
    >>> make = lambda: GPT(GPTConfig(11, 6, 1, blocks), rngs=nnx.Rngs(0))
    >>> jax.eval_shape(lambda ids: make()(ids), jnp.array([[5, 6, 2]])).shape
    (1, 3, 11)
    >>> nnx.eval_shape(make).layers[0].self_attention.rule.mask
    causal()
    """

    config: GPTConfig

    def __init__(
        self,
        config: GPTConfig = GPTConfig(),
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(config, rule=rule, rngs=rngs)
        if config.head == "sequence_classification":
            self.head = nnx.Linear(config.blocks.width, config.labels, use_bias=False, rngs=rngs)

    @classmethod
    def small(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """GPT-2 of 124 million parameters; ``nnx.eval_shape(GPT.small)`` allocates none of them."""
        return cls._of(12, 768, 12, rngs)

    @classmethod
    def medium(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """GPT-2 of 355 million parameters."""
        return cls._of(24, 1024, 16, rngs)

    @classmethod
    def large(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """GPT-2 of 774 million parameters."""
        return cls._of(36, 1280, 20, rngs)

    @classmethod
    def xl(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """GPT-2 of 1,558 million parameters."""
        return cls._of(48, 1600, 25, rngs)

    @classmethod
    def _of(cls, layers: int, width: int, heads: int, rngs: nnx.Rngs | None) -> Self:
        config = GPTConfig(layers=layers, blocks=gpt_blocks(width, heads))
        return cls(config, rngs=rngs or nnx.Rngs(0))

    def _said(self, ids: Array, x: Array) -> Array:
        if self.config.head == "language_model":
            return self._logits(x)
        last = jnp.full(ids.shape[:-1], ids.shape[-1] - 1)
        if self.config.padding is not None:
            last = (jnp.arange(ids.shape[-1]) * (ids != self.config.padding)).argmax(-1)
        return self.head(jnp.take_along_axis(x, last[:, None, None], axis=1)[:, 0])
