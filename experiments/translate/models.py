"""The models that can be trained, each a config section that builds one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
from flax import nnx

from attn_jax.functional import normalizers, scores
from attn_jax.functional.normalizers import Normalizer
from attn_jax.functional.rule import Rule
from attn_jax.functional.scores import Score
from attn_jax.models.bahdanau import Bahdanau, RecurrentConfig, Seq2Seq
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.attention import MultiHeadAttention
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.trainable import trainable
from experiments.translate.published import PublishedTokenizer, published


class Architecture(Protocol):
    """A config section that a model can be built from."""

    def build(self, vocabulary: int, seed: int) -> Any:
        """The model with its initial parameters: called, it gives logits; `step` decodes.

        Raises:
          ValueError: a size, a rate or a name is none.
        """


SCORES: dict[str, Callable[[], Score]] = {
    "scaled_dot": scores.scaled_dot,
    "cosine": lambda: scores.cosine(jnp.asarray(0.1)),
    "l2": lambda: scores.l2(jnp.asarray(0.5)),
}
NORMALIZERS: dict[str, Callable[[int], Normalizer]] = {
    "softmax": lambda heads: normalizers.softmax(),
    "softmax_sink": lambda heads: normalizers.softmax(sink=jnp.zeros(heads)),
    "sparsemax": lambda heads: normalizers.sparsemax(),
    "entmax15": lambda heads: normalizers.entmax15(),
}


@dataclass
class Model:
    """The Transformer.

    Args:
      width: of the residual stream.
      hidden: of the feed-forward networks.
      heads: of each attention.
      encoder_layers, decoder_layers: how many blocks.
      norm: post or pre.
      activation: relu, gelu or silu.
      epsilon: added to the variance in each layer normalisation.
      dropout: rate on embeddings and on the output of each sublayer.
      attention_dropout: rate on attention weights.
      activation_dropout: rate inside the feed-forward networks.
      positions: sinusoidal, learned, rotary, alibi, t5 or none.
      longest: how many positions are learned, where they are.
      score: of all attention: scaled_dot, cosine or l2; their scale is learned, one for all layers.
      normalizer: of all attention: softmax, softmax_sink (learned), sparsemax or entmax15.
      backend: that evaluates attention; auto takes the fastest.
      saved: what a block keeps of the forward pass for the backward pass: all, products or inputs;
        what it does not is computed again, for memory.
      scanned: whether all blocks of a side are compiled as one, for deep models.
    """

    width: int = 128
    hidden: int = 512
    heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 2
    norm: str = "post"
    activation: str = "relu"
    epsilon: float = 1e-6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    positions: str = "sinusoidal"
    longest: int = 256
    score: str = "scaled_dot"
    normalizer: str = "softmax"
    backend: str = "auto"
    saved: str = "all"
    scanned: bool = False

    def build(self, vocabulary: int, seed: int) -> Transformer:
        """See :class:`Architecture`."""
        sizes = ("width", "hidden", "heads", "encoder_layers", "decoder_layers", "longest")
        _check(self, sizes, ("epsilon", "dropout", "attention_dropout", "activation_dropout"))
        blocks = BlockOptions(
            width=self.width,
            hidden=self.hidden,
            heads=self.heads,
            norm=self.norm,  # type: ignore[arg-type]
            activation=self.activation,
            epsilon=self.epsilon,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            saved=self.saved,  # type: ignore[arg-type]
            scanned=self.scanned,
        )
        config = TransformerConfig(
            vocabulary=vocabulary,
            encoder_layers=self.encoder_layers,
            decoder_layers=self.decoder_layers,
            blocks=blocks,
            positions=self.positions,
            longest=self.longest,
        )
        rule = trainable(
            Rule(
                _named(SCORES, "score", self.score)(),
                normalizer=_named(NORMALIZERS, "normalizer", self.normalizer)(self.heads),
            )
        )
        model = Transformer(config, rule=rule, cross_rule=rule, rngs=nnx.Rngs(seed))
        for _, module in nnx.iter_modules(model):
            if isinstance(module, MultiHeadAttention):
                module.backend = self.backend
        return model


@dataclass
class Recurrent:
    """Bahdanau's model, or the fixed vector that it overcame.

    Args:
      attends: whether the decoder looks at the source; else one vector must do.
      width: of the embeddings.
      hidden: of the decoder's state, and of either direction of the encoder.
      attention: width in which queries and keys meet.
      dropout: rate on embeddings, on the encoder's states and before the output.
    """

    attends: bool = True
    width: int = 256
    hidden: int = 256
    attention: int = 256
    dropout: float = 0.3

    def build(self, vocabulary: int, seed: int) -> Seq2Seq:
        """See :class:`Architecture`."""
        _check(self, ("width", "hidden", "attention"), ("dropout",))
        config = RecurrentConfig(
            vocabulary=vocabulary,
            width=self.width,
            hidden=self.hidden,
            attention=self.attention,
            dropout=self.dropout,
        )
        return (Bahdanau if self.attends else Seq2Seq)(config, rngs=nnx.Rngs(seed))


@dataclass
class Published:
    """A MarianMT that is read from a directory, with its subwords.

    Args:
      directory: with config.json, model.safetensors, source.spm, target.spm and vocab.json.
    """

    directory: str = ""

    def build(self, vocabulary: int, seed: int) -> Transformer:
        """See :class:`Architecture`; its vocabulary is its own, and nothing is drawn."""
        return nnx.clone(published(self.directory)[0])

    def tokenizer(self) -> PublishedTokenizer:
        """Of the directory."""
        return published(self.directory)[1]


def _check(section: Any, sizes: tuple[str, ...], rates: tuple[str, ...]) -> None:
    for name in sizes:
        if (size := getattr(section, name)) < 1:
            raise ValueError(f"expected model.{name} of at least 1, got {size}")
    for name in rates:
        if not 0 <= (rate := getattr(section, name)) < 1:
            raise ValueError(f"expected model.{name} in [0, 1), got {rate}")


def _named(known: dict[str, Any], what: str, name: str) -> Any:
    if name not in known:
        raise ValueError(f"no {what} {name!r}; there are {', '.join(known)}")
    return known[name]
