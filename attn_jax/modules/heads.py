"""What is put on an encoder: a masked language model, or a classification."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.modules.blocks import ACTIVATIONS, BlockOptions
from attn_jax.modules.embeddings import TokenEmbedding

Array = jax.Array


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
