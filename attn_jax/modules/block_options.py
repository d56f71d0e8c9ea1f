"""What the blocks of a Transformer are made of: sizes, order of normalisation, dropout."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
from flax import nnx

from attn_jax.functional.rule import Rule
from attn_jax.modules.attention import MultiHeadAttention
from attn_jax.modules.watching import is_watched

Array = jax.Array
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "gelu_sigmoid": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "silu": jax.nn.silu,
}
_SAVED: dict[str, Any] = {
    "all": jax.checkpoint_policies.everything_saveable,
    "products": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "inputs": jax.checkpoint_policies.nothing_saveable,
}


@dataclasses.dataclass(frozen=True)
class BlockOptions:
    """What the blocks of a Transformer share.

    Args:
      width: m, of the residual stream.
      hidden: f, of the feed-forward network.
      heads: h, query heads.
      key_value_heads: g, key and value heads; h where None.
      norm: "post" normalises after the residual sum, "pre" before the sublayer.
      activation: of the feed-forward network: "relu", "gelu" (exact), "gelu_tanh" and
        "gelu_sigmoid" (its approximations, GPT-2's and ImageGPT's) or "silu".
      epsilon: added to the variance in each layer normalisation.
      centred: whether layer normalisation subtracts the mean and adds a bias; else it divides by
        the root mean square (Zhang and Sennrich 2019).
      dropout: rate on the output of each sublayer.
      attention_dropout: rate on attention weights.
      activation_dropout: rate on the feed-forward network's hidden units.
      rotary: whether self-attention rotates queries and keys by their positions.
      saved: what a block keeps of the forward pass for the backward pass: "all"; "products", of
        matrices with parameters; or "inputs", its own. What is not kept is computed again.
      scanned: whether the blocks of a stack are compiled as one, see
        :func:`attn_jax.modules.layers.through`.

    Raises:
      ValueError: `norm`, `activation` or `saved` is none of those.

    References: post: Vaswani et al. (2017), section 3.1; pre: Xiong et al. (2020); gelu: Hendrycks
    and Gimpel (2016).
    """

    width: int = 512
    hidden: int = 2048
    heads: int = 8
    key_value_heads: int | None = None
    norm: Literal["pre", "post"] = "post"
    activation: str = "relu"
    epsilon: float = 1e-6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    centred: bool = True
    rotary: bool = False
    saved: Literal["all", "products", "inputs"] = "all"
    scanned: bool = False

    def __post_init__(self) -> None:
        if self.norm not in ("pre", "post"):
            raise ValueError(f'norm must be "pre" or "post", got {self.norm!r}')
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}"
            )
        if self.saved not in _SAVED:
            raise ValueError(f"saved must be one of {', '.join(_SAVED)}, got {self.saved!r}")

    def attention(
        self, rule: Rule, rngs: nnx.Rngs, *, to_memory: bool = False
    ) -> MultiHeadAttention:
        """Attention of these sizes, to itself or to a memory, which stands in no order with it."""
        return MultiHeadAttention(
            self.width,
            self.heads,
            key_value_heads=self.key_value_heads,
            rule=rule,
            dropout=self.attention_dropout,
            turned=self.rotary and not to_memory,
            rngs=rngs,
        )

    def saving(self, block: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """The same block, which keeps for the backward pass what it is to keep.

        All, where it is watched: what is computed twice cannot be looked at from outside.
        """
        if self.saved == "all" or is_watched():
            return block
        return jax.checkpoint(block, policy=_SAVED[self.saved])

    def layer_norm(self, rngs: nnx.Rngs) -> nnx.LayerNorm | nnx.RMSNorm:
        """Layer normalisation of these sizes (Ba, Kiros and Hinton 2016)."""
        norm = nnx.LayerNorm if self.centred else nnx.RMSNorm
        return norm(self.width, epsilon=self.epsilon, rngs=rngs)
