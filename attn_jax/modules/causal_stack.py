"""A stack of causal blocks over tokens, which says of each which token follows."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import causal, everything
from attn_jax.functional.rule import Rule
from attn_jax.modules.blocks import BlockOptions, EncoderBlock
from attn_jax.modules.embeddings import LearnedEmbedding, TokenEmbedding, add_sinusoids
from attn_jax.modules.layers import states_between
from attn_jax.modules.positional import Kind, biased, checked
from attn_jax.modules.watching import attention_maps

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class StackConfig:
    """The sizes of a causal stack.

    Args:
      vocabulary: v.
      positions: how many positions have an embedding: the longest sequence.
      layers: how many blocks.
      blocks: what the blocks are made of.
      tied: whether the embedding's table gives the logits too.
      kind: of positions, as of :class:`attn_jax.models.TransformerConfig`; all but "learned" do
        without a table, and can read sequences of any length.
    """

    vocabulary: int
    positions: int
    layers: int
    blocks: BlockOptions
    tied: bool = True
    kind: Kind = "learned"


class CausalStack(nnx.Module):
    """Causal blocks over embedded tokens and positions; one table embeds and gives logits if tied.

    What a GPT and its kin share.

    Args:
      config: the sizes.
      rule: the mechanism of all attention; a causal mask joins it.
      rngs: where the initial parameters come from.

    >>> blocks = BlockOptions(width=8, hidden=16, heads=2, norm="pre")
    >>> make = lambda: CausalStack(StackConfig(11, 6, 1, blocks), rngs=nnx.Rngs(0))
    >>> jax.eval_shape(lambda ids: make()(ids), jnp.array([[5, 6, 2]])).shape
    (1, 3, 11)
    """

    config: Any

    def __init__(
        self,
        config: StackConfig,
        *,
        rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        kind, blocks = checked(config.kind), config.blocks
        if kind == "rotary":
            blocks = dataclasses.replace(blocks, rotary=True)
        self.config = config
        self.embedding = TokenEmbedding(
            config.vocabulary, blocks.width, scaled=kind == "sinusoidal", rngs=rngs
        )
        self.positions = nnx.data(
            LearnedEmbedding(config.positions, blocks.width, rngs=rngs)
            if kind == "learned"
            else None
        )
        rule = biased(rule & causal(), kind, blocks.heads, bidirectional=False)
        self.layers = nnx.List(
            EncoderBlock(blocks, rule=rule, rngs=rngs) for _ in range(config.layers)
        )
        self.norm = blocks.layer_norm(rngs)
        if not config.tied:
            self.output = TokenEmbedding(config.vocabulary, blocks.width, rngs=rngs)

    def __call__(
        self,
        ids: Array,
        *,
        mask: Mask = everything(),  # noqa: B008
        positions: Array | None = None,
        rng: Array | None = None,
    ) -> Array:
        """What the head makes of tokens: here logits of the token that follows each.

        Args:
          ids: `b t`, integers.
          mask: joins the rule's, as ``masks.valid(ids != padding)``.
          positions: `t` or `b t`, which position's embedding each token gets; 0, 1, … where None.
          rng: a key, or one per row, `b`, to train with dropout; None for none.

        Returns:
          `b t v`, float32 or wider; another head's as its class says.
        """
        return self._said(ids, self.hidden_states(ids, mask=mask, positions=positions, rng=rng)[-1])

    def _said(self, ids: Array, x: Array) -> Array:
        """What the head makes of tokens and of their last states, `b t m`."""
        return self._logits(x)

    def hidden_states(
        self,
        ids: Array,
        *,
        mask: Mask = everything(),  # noqa: B008
        positions: Array | None = None,
        rng: Array | None = None,
    ) -> tuple[Array, ...]:
        """What each block is given, and what the logits are made of: layers + 1 times `b t m`."""
        x = self._embed(ids, jnp.arange(ids.shape[-1]) if positions is None else positions)
        *given, last = states_between(
            self.layers,
            x,
            lambda layer, x, noise: layer(x, mask=mask, noise=noise),
            dropout=self.config.blocks.dropout,
            rng=rng,
            scanned=self.config.blocks.scanned,
        )
        return (*given, self.norm(last))

    def attention_maps(
        self,
        ids: Array,
        *,
        mask: Mask = everything(),  # noqa: B008
        positions: Array | None = None,
    ) -> tuple[Array, ...]:
        """Where each layer looks, `b h t t` each; without dropout."""
        return attention_maps(type(self).hidden_states, self, ids, mask=mask, positions=positions)

    def step(self, tokens: Array, cache: Any) -> tuple[Array, Any]:
        """Logits of the token that follows, for k hypotheses of each of b rows.

        Args:
          tokens: `b k`, the newest token of each hypothesis, or `b k t`, several.
          cache: all before it, an ``attn_jax.decode.cache.Continuation``.

        Returns:
          `b k v`, after the last token, float32 or wider; and the longer cache.
        """
        ids = tokens[..., None] if tokens.ndim == 2 else tokens
        x, layers = self._embed(ids, cache.positions(ids.shape[-1])), []
        for block, layer in zip(self.layers, cache.layers, strict=True):
            x, layer = block.step(x, layer, mask=cache.mask)
            layers.append(layer)
        return self._logits(self.norm(x[..., -1, :])), cache.replace(layers=tuple(layers))

    @property
    def longest(self) -> int | None:
        """The most tokens it can read; None where only the rule says where they stand."""
        return None if self.positions is None else self.positions.size

    def _embed(self, ids: Array, positions: Array) -> Array:
        x = self.embedding(ids)
        if self.config.kind == "sinusoidal":
            return add_sinusoids(x, positions)
        if self.longest is None:
            return x
        if ids.shape[-1] > self.longest:
            raise ValueError(f"{ids.shape[-1]} tokens, but the model has {self.longest} positions")
        return x + self.positions(positions)

    def _logits(self, x: Array) -> Array:
        return (self.embedding if self.config.tied else self.output).logits(x)
