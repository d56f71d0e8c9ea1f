"""What is put on an encoder of tokens: a masked language model, or a classification."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.modules.block_options import ACTIVATIONS, BlockOptions
from attn_jax.modules.embeddings import TokenEmbedding

Array = jax.Array
Head = Literal[
    "masked_language_model",
    "pretraining",
    "next_sentence",
    "sequence_classification",
    "token_classification",
    "question_answering",
]
"""What a call returns: of each token what it was before it was masked; that and whether the second
segment follows the first; the latter alone; the label of the whole; of each token its label; or of
each token whether an answer begins and whether it ends there."""


class MaskedLanguageModel(nnx.Module):
    r"""What a token was before it was masked: :math:`\mathrm{norm}(a(W x + c))\, E^T + b`.

    Args:
      options: the width, activation and normalisation of the encoder.
      vocabulary: v.
      tied: whether E is the table that embeds tokens; else the head has a linear map of its own.
      rngs: where the initial parameters come from.

    Reference: Devlin et al. (2019), section 3.1; the layer before E is of its code.
    """

    def __init__(
        self, options: BlockOptions, vocabulary: int, tied: bool = True, *, rngs: nnx.Rngs
    ) -> None:
        self.dense = nnx.Linear(options.width, options.width, rngs=rngs)
        self.activation = options.activation
        self.norm = options.layer_norm(rngs)
        self.tied = tied
        if tied:
            self.bias = nnx.Param(jnp.zeros(vocabulary))
        else:
            self.decoder = nnx.Linear(options.width, vocabulary, rngs=rngs)

    def __call__(self, x: Array, embedding: TokenEmbedding) -> Array:
        """States `… m` to logits `… v`, float32 or wider where tied."""
        x = self.norm(ACTIVATIONS[self.activation](self.dense(x)))
        return embedding.logits(x) + self.bias[...] if self.tied else self.decoder(x)


class Classification(nnx.Module):
    """A linear map to labels, after dropout.

    Args:
      width: m.
      labels: l.
      rngs: where the initial parameters come from.

    >>> head = Classification(4, 3, rngs=nnx.Rngs(0))
    >>> jax.eval_shape(head, jnp.ones((2, 5, 4))).shape
    (2, 5, 3)
    """

    def __init__(self, width: int, labels: int, *, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(width, labels, rngs=rngs)

    def __call__(self, x: Array, noise: Dropout | None = None) -> Array:
        """States `*b t m` to logits `*b t l`."""
        return self.linear(x if noise is None else noise.on_features(x))


class PretrainingLogits(NamedTuple):
    """What a BERT says while it is pretrained."""

    tokens: Array
    """`b t v`: what each token was before it was masked."""
    sentences: Array
    """`b 2`: the second segment follows the first, or is any other."""


class Pretraining(nnx.Module):
    """A masked language model, and whether one sentence follows the other.

    Args:
      options, vocabulary, tied, rngs: as of :class:`MaskedLanguageModel`.

    Reference: Devlin et al. (2019), section 3.1.
    """

    def __init__(
        self, options: BlockOptions, vocabulary: int, tied: bool = True, *, rngs: nnx.Rngs
    ) -> None:
        self.tokens = MaskedLanguageModel(options, vocabulary, tied, rngs=rngs)
        self.sentences = nnx.Linear(options.width, 2, rngs=rngs)

    def __call__(self, x: Array, pooled: Array, embedding: TokenEmbedding) -> PretrainingLogits:
        """States `b t m` and the pooled first one `b m` to logits."""
        return PretrainingLogits(self.tokens(x, embedding), self.sentences(pooled))


class Headed(nnx.Module):
    """A model of tokens with one of the heads that people put on it, or with none.

    Who inherits it has a `config` with `head`, `labels`, `vocabulary`, `tied` and `blocks`, and the
    `embedding` of its tokens.
    """

    config: Any
    embedding: TokenEmbedding

    def set_head(self, head: Head | None, *, labels: int = 2, rngs: nnx.Rngs) -> None:
        """A new head in the place of the present one; the pooler stays where the head reads it.

        Args:
          head: None for the states themselves.
          labels: l, of a classification of sequences or of tokens.
          rngs: where the initial parameters come from.

        Raises:
          ValueError: there is no such head.
        """
        if head is not None and head not in get_args(Head):
            allowed = ", ".join(get_args(Head))
            raise ValueError(f"head must be None or one of {allowed}, got {head!r}")
        labels = 2 if head in ("next_sentence", "question_answering") else labels
        self.config = dataclasses.replace(self.config, head=head, labels=labels)
        width: int = self.config.blocks.width
        made: Any = None
        if head in ("masked_language_model", "token_classification", "question_answering"):
            self.pooler: Any = None
        elif getattr(self, "pooler", None) is None:
            self.pooler = nnx.data(nnx.Linear(width, width, rngs=rngs))
        if head in ("masked_language_model", "pretraining"):
            kind = Pretraining if head == "pretraining" else MaskedLanguageModel
            sizes = self.config.blocks, self.config.vocabulary, self.config.tied
            made = kind(*sizes, rngs=rngs)
        elif head is not None:
            made = Classification(width, labels, rngs=rngs)
        self.head: Any = nnx.data(made)

    def pooled(self, states: Array) -> Array:
        """The first token's last state `b t m`, through a layer of tanh: `b m`."""
        return jnp.tanh(self.pooler(states[..., 0, :]))

    def _said(self, x: Array, rng: Array | None) -> Any:
        """What the head makes of the last states, `b t m`; with dropout where a key is given."""
        head, noise = self.config.head, None
        if head is None:
            return x
        if head == "masked_language_model":
            return self.head(x, self.embedding)
        if head == "pretraining":
            return self.head(x, self.pooled(x), self.embedding)
        if rng is not None and head.endswith("classification"):
            noise = Dropout(self.config.blocks.dropout, rng).at(-1)
        if head in ("token_classification", "question_answering"):
            return self.head(x, noise)
        return self.head(self.pooled(x)[..., None, :], noise)[..., 0, :]
