"""The Transformer of "Attention Is All You Need": an encoder, and a decoder that looks at it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import causal, valid
from attn_jax.functional.rule import Rule
from attn_jax.modules.blocks import BlockOptions, DecoderBlock, EncoderBlock
from attn_jax.modules.embeddings import TokenEmbedding
from attn_jax.modules.layers import through
from attn_jax.modules.positional import AddedPositions, biased, checked

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a Transformer; the defaults are the paper's base model.

    Args:
      vocabulary: v, tokens of the source language, and of both where `target_vocabulary` is None:
        then source, target and output share one table.
      target_vocabulary: tokens of the target language; its table is tied to the output.
      encoder_layers, decoder_layers: how many blocks.
      blocks: what the blocks are made of.
      positions: "sinusoidal", "learned", "rotary", "alibi", "t5" or "none".
      longest: how many positions are learned, where they are.
      interleaved: whether each sine of sinusoids is followed by its cosine; Marian's sines come first.
      scaled: whether embeddings are multiplied by the root of the width.
      output_bias: whether logits have a bias, as Marian's have.
      padding, begin, end: the tokens that are padding, that a target begins with and that it ends
        with; only padding is known to the model, the others to who searches.
    """

    vocabulary: int = 37_000
    target_vocabulary: int | None = None
    encoder_layers: int = 6
    decoder_layers: int = 6
    blocks: BlockOptions = dataclasses.field(default_factory=BlockOptions)
    positions: str = "sinusoidal"
    longest: int = 1024
    interleaved: bool = True
    scaled: bool = True
    output_bias: bool = False
    padding: int = 0
    begin: int = 1
    end: int = 2

    @property
    def never(self) -> tuple[tuple[int], ...]:
        """What no target holds, as phrases of one token each: padding, and what begins it."""
        return tuple((token,) for token in sorted({self.padding, self.begin} - {self.end}))


class Transformer(nnx.Module):
    """Translates a sequence of tokens into another.

    Args:
      config: the sizes.
      rule: the mechanism of all self-attention; in the decoder a causal mask joins it.
      cross_rule: the mechanism by which the decoder looks at the encoder's memory.
      rngs: where the initial parameters come from.

    Reference: Vaswani et al. (2017), figure 1.

    >>> options = BlockOptions(width=8, hidden=16, heads=2)
    >>> model = Transformer(TransformerConfig(11, None, 1, 1, options), rngs=nnx.Rngs(0))
    >>> model(jnp.array([[5, 6, 2, 0]]), jnp.array([[1, 7]])).shape
    (1, 2, 11)
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        rule: Rule = Rule(),  # noqa: B008
        cross_rule: Rule = Rule(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        kind, width = checked(config.positions), config.blocks.width
        blocks = dataclasses.replace(config.blocks, rotary=kind == "rotary")
        self.config = config
        self.source_embedding = self.target_embedding = TokenEmbedding(
            config.vocabulary, width, scaled=config.scaled, rngs=rngs
        )
        if config.target_vocabulary is not None:
            self.target_embedding = TokenEmbedding(
                config.target_vocabulary, width, scaled=config.scaled, rngs=rngs
            )
        self.source_positions, self.target_positions = (
            AddedPositions(kind, width, config.longest, config.interleaved, rngs=rngs)
            for _ in range(2)
        )
        both_ways, back = (
            biased(rule, kind, blocks.heads, bidirectional=both) for both in (True, False)
        )
        self.encoder = nnx.List(
            EncoderBlock(blocks, rule=both_ways, rngs=rngs) for _ in range(config.encoder_layers)
        )
        self.decoder = nnx.List(
            DecoderBlock(blocks, rule=back & causal(), cross_rule=cross_rule, rngs=rngs)
            for _ in range(config.decoder_layers)
        )
        self.pre_norm = blocks.norm == "pre"
        if self.pre_norm:
            self.encoder_norm = nnx.LayerNorm(width, rngs=rngs)
            self.decoder_norm = nnx.LayerNorm(width, rngs=rngs)
        if config.output_bias:
            self.output_bias = nnx.Param(jnp.zeros(self.target_embedding.table.shape[0]))
        self.dropout, self.scanned = blocks.dropout, blocks.scanned

    def __call__(self, source: Array, inputs: Array, *, rng: Array | None = None) -> Array:
        """Logits of the token that follows each of `inputs`.

        Args:
          source: `b s`, int32 token ids, padded.
          inputs: `b t`, the target shifted right: begins with the begin-of-sentence token.
          rng: a key, or one per row, `b`, to train with dropout; None for none.

        Returns:
          `b t v`, float32.
        """
        noise = None if rng is None else Dropout(self.dropout, rng).at(1)
        memory, mask = self.encode(source, rng=rng), self.memory_mask(source)
        x = self._embed_target(inputs, noise and noise.at(0))

        def decode(block: DecoderBlock, x: Array, i: Any) -> Array:
            return block(x, memory, memory_mask=mask, noise=noise and noise.at(i))

        return self._logits(through(self.decoder, x, decode, scanned=self.scanned))

    def encode(self, source: Array, *, rng: Array | None = None) -> Array:
        """The memory of `b s` source tokens: `b s m`."""
        noise = None if rng is None else Dropout(self.dropout, rng).at(0)
        self.source_positions.check(source.shape[-1])
        x = self.source_positions(self.source_embedding(source), jnp.arange(source.shape[-1]))
        x = x if noise is None else noise.at(0).on_features(x)
        mask = self.memory_mask(source)

        def encode(block: EncoderBlock, x: Array, i: Any) -> Array:
            return block(x, mask=mask, noise=noise and noise.at(i))

        x = through(self.encoder, x, encode, scanned=self.scanned)
        return self.encoder_norm(x) if self.pre_norm else x

    def memory_mask(self, source: Array) -> Mask:
        """Which of the source's tokens may be looked at: those that are not padding."""
        return valid(source != self.config.padding)

    def step(self, tokens: Array, cache: Any) -> tuple[Array, Any]:
        """Logits of the token that follows, for k hypotheses of each of b sentences.

        Args:
          tokens: `b k`, the newest token of each hypothesis.
          cache: all before it, an ``attn_jax.decode.cache.Cache``.

        Returns:
          `b k v`, float32, and the longer cache.
        """
        self.target_positions.check(cache.layers[0].keys.shape[-3])
        x = self._embed_target(tokens[..., None], start=cache.length)
        layers = []
        for block, layer, memory in zip(self.decoder, cache.layers, cache.memories, strict=True):
            x, layer = block.step(x, layer, memory, memory_mask=cache.memory_mask)
            layers.append(layer)
        return self._logits(x[..., 0, :]), cache.replace(layers=tuple(layers))

    def cross_attention(self, source: Array, inputs: Array) -> tuple[Array, ...]:
        """Where each decoder layer looks in the source, `b h t s` each; without dropout."""
        memory, mask = self.encode(source), self.memory_mask(source)
        x, weights = self._embed_target(inputs), []
        for block in self.decoder:
            weights.append(block.cross_weights(x, memory, memory_mask=mask))
            x = block(x, memory, memory_mask=mask)
        return tuple(weights)

    def _embed_target(
        self, ids: Array, noise: Dropout | None = None, start: int | Array = 0
    ) -> Array:
        self.target_positions.check(ids.shape[-1])
        x = self.target_positions(self.target_embedding(ids), start + jnp.arange(ids.shape[-1]))
        return x if noise is None else noise.on_features(x)

    def _logits(self, x: Array) -> Array:
        logits = self.target_embedding.logits(self.decoder_norm(x) if self.pre_norm else x)
        return logits + self.output_bias[...] if self.config.output_bias else logits
