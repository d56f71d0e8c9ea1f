"""The Transformer of "Attention Is All You Need": an encoder, and a decoder that looks at it."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional import masks
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import causal, everything, valid
from attn_jax.functional.positions import restarting
from attn_jax.functional.rule import Rule
from attn_jax.modules.blocks import BlockOptions, DecoderBlock, EncoderBlock
from attn_jax.modules.embeddings import TokenEmbedding
from attn_jax.modules.layers import through
from attn_jax.modules.positional import AddedPositions, biased, checked
from attn_jax.modules.watching import capture

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
    >>> make = lambda: Transformer(TransformerConfig(11, None, 1, 1, options), rngs=nnx.Rngs(0))
    >>> source, inputs = jnp.array([[5, 6, 2, 0]]), jnp.array([[1, 7]])
    >>> jax.eval_shape(lambda: make()(source, inputs)).shape
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

    @classmethod
    def base(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """The paper's base model, of 65 million parameters with its vocabulary."""
        return cls(TransformerConfig(), rngs=rngs or nnx.Rngs(0))

    @classmethod
    def big(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """The paper's big model, of 213 million parameters."""
        blocks = BlockOptions(1024, 4096, 16, dropout=0.3)
        return cls(TransformerConfig(blocks=blocks), rngs=rngs or nnx.Rngs(0))

    def __call__(
        self,
        source: Array,
        inputs: Array,
        *,
        rng: Array | None = None,
        segments: tuple[Array, Array] | None = None,
    ) -> Array:
        """Logits of the token that follows each of `inputs`.

        Args:
          source: `b s`, int32 token ids, padded.
          inputs: `b t`, the target shifted right: begins with the begin-of-sentence token.
          rng: a key, or one per row, `b`, to train with dropout; None for none.
          segments: where rows hold several pairs: which of them each token of the source, `b s`, and
            of the inputs, `b t`, belongs to, −1 on padding. No pair sees another.

        Returns:
          `b t v`, float32.
        """
        noise = None if rng is None else Dropout(self.dropout, rng).at(1)
        sources, targets = segments or (None, None)
        memory = self.encode(source, rng=rng, segments=sources)
        mask: Mask = self.memory_mask(source)
        own: Mask = everything()
        if targets is not None:
            mask, own = masks.segments(targets, sources), masks.segments(targets)
        x = self._embed_target(inputs, _places(inputs, targets), noise and noise.at(0))

        def decode(block: DecoderBlock, x: Array, i: Any) -> Array:
            return block(x, memory, mask=own, memory_mask=mask, noise=noise and noise.at(i))

        return self._logits(through(self.decoder, x, decode, scanned=self.scanned))

    def encode(
        self, source: Array, *, rng: Array | None = None, segments: Array | None = None
    ) -> Array:
        """The memory of `b s` source tokens: `b s m`; `segments` as of a call, of the source."""
        noise = None if rng is None else Dropout(self.dropout, rng).at(0)
        self.source_positions.check(source.shape[-1])
        x = self.source_positions(self.source_embedding(source), _places(source, segments))
        x = x if noise is None else noise.at(0).on_features(x)
        mask = self.memory_mask(source) if segments is None else masks.segments(segments)

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
        self.target_positions.check(cache.layers[0].size)
        x = self._embed_target(tokens[..., None], cache.length + jnp.arange(1))
        layers = []
        for block, layer, memory in zip(self.decoder, cache.layers, cache.memories, strict=True):
            x, layer = block.step(x, layer, memory, memory_mask=cache.memory_mask)
            layers.append(layer)
        return self._logits(x[..., 0, :]), cache.replace(layers=tuple(layers))

    def step_and_look(self, tokens: Array, cache: Any) -> tuple[Array, Any, Array]:
        """As :meth:`step`, and where its last layer looks in the source, `b k s`: its heads' mean."""
        (logits, cache), looks = capture(type(self).step, self, tokens, cache)
        *_, last = (look for path, look in looks.items() if path.endswith("cross_attention"))
        return logits, cache, last.weights().mean(axis=-3)

    def cross_attention(self, source: Array, inputs: Array) -> tuple[Array, ...]:
        """Where each decoder layer looks in the source, `b h t s` each; without dropout."""
        _, looks = capture(self, source, inputs)
        across = [look for path, look in looks.items() if path.endswith("cross_attention")]
        return tuple(look.weights() for look in across)

    def _embed_target(self, ids: Array, positions: Array, noise: Dropout | None = None) -> Array:
        self.target_positions.check(ids.shape[-1])
        x = self.target_positions(self.target_embedding(ids), positions)
        return x if noise is None else noise.on_features(x)

    def _logits(self, x: Array) -> Array:
        logits = self.target_embedding.logits(self.decoder_norm(x) if self.pre_norm else x)
        return logits + self.output_bias[...] if self.config.output_bias else logits


def _places(ids: Array, segments: Array | None) -> Array:
    """Where each token stands: in its row, or in its segment of it."""
    return jnp.arange(ids.shape[-1]) if segments is None else restarting(segments)
