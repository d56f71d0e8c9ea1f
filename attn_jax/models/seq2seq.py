"""Recurrent translation with one vector for the whole source, which attention has to overcome."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.functional.value import Value
from attn_jax.modules.attention import initializer
from attn_jax.modules.embeddings import TokenEmbedding
from attn_jax.modules.recurrent import GRU, BidirectionalGRU

Array = jax.Array
PADDING = 0


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
    """The sizes of a recurrent translator; the defaults are Bahdanau's.

    Args:
      vocabulary: v, tokens of the source language, and of both where `target_vocabulary` is None:
        then source, target and output share one table.
      target_vocabulary: tokens of the target language; its table is tied to the output.
      width: m, of the embeddings.
      hidden: n, of the state of the decoder, and of either direction of the encoder.
      attention: a, the width in which queries and keys meet.
      dropout: rate on embeddings, on the encoder's states and before the output.
    """

    vocabulary: int = 30_000
    target_vocabulary: int | None = None
    width: int = 620
    hidden: int = 1_000
    attention: int = 1_000
    dropout: float = 0.0


class RecurrentCache(Value):
    """All that a recurrent decoder needs for the next token of k hypotheses a sentence.

    Args:
      state: `b k n`.
      memory: what is looked at of the source, of batch `b`; the hypotheses share it.
    """

    state: Array
    memory: Any

    def select(self, parents: Array) -> RecurrentCache:
        """The cache of hypotheses that continue `parents`, `b k`: row j continues parents[j]."""
        return self.replace(state=jnp.take_along_axis(self.state, parents[..., None], axis=1))


class Seq2Seq(nnx.Module):
    r"""An encoder that reads the source into one vector, and a decoder that writes from it.

    .. math:: c = [\overrightarrow{h}_s; \overleftarrow{h}_1], \quad
              s_i = \mathrm{GRU}([E y_{i-1}; c], s_{i-1}), \quad
              p(y_i) = \mathrm{softmax}(E\, \mathrm{maxout}(s_i, c, E y_{i-1}))

    Token id 0 is padding.

    Args:
      config: the sizes.
      rngs: where the initial parameters come from.

    References: Cho et al. (2014); Sutskever et al. (2014); the output is Bahdanau's.

    >>> sizes, (source, inputs) = RecurrentConfig(11, None, 8, 6), jnp.ones((2, 1, 4), int)
    >>> jax.eval_shape(lambda: Seq2Seq(sizes, rngs=nnx.Rngs(0))(source, inputs)).shape
    (1, 4, 11)
    """

    def __init__(self, config: RecurrentConfig, *, rngs: nnx.Rngs) -> None:
        m, n, v = config.width, config.hidden, config.target_vocabulary
        self.source_embedding = TokenEmbedding(config.vocabulary, m, rngs=rngs)
        self.target_embedding = (
            self.source_embedding if v is None else TokenEmbedding(v, m, rngs=rngs)
        )
        self.encoder = BidirectionalGRU(m, n, rngs=rngs)
        self.bridge = nnx.Linear(n, n, kernel_init=initializer, rngs=rngs)
        self.decoder = GRU(m, n, rngs=rngs)
        self.context_in = nnx.Linear(2 * n, 3 * n, use_bias=False, rngs=rngs)
        self.readout = nnx.Linear(m + 3 * n, 2 * m, kernel_init=initializer, rngs=rngs)
        self.hidden, self.dropout = n, config.dropout

    def __call__(self, source: Array, inputs: Array, *, rng: Array | None = None) -> Array:
        """Logits of the token that follows each of `inputs`.

        Args:
          source: `b s`, int32 token ids, 0 for padding.
          inputs: `b t`, the target shifted right: begins with the begin-of-sentence token.
          rng: a key, or one per row, `b`, to train with dropout; None for none.

        Returns:
          `b t v`, float32.
        """
        noise = None if rng is None else Dropout(self.dropout, rng)
        words = _drop(self.target_embedding(inputs), noise, 2)
        encoded = self.encode(source, rng=rng)
        _, states, contexts = self._write(words, encoded, source)
        return self._logits(words, states, contexts, noise)

    def encode(self, source: Array, *, rng: Array | None = None) -> Array:
        """The states of both directions at each of `b s` source tokens: `b s 2n`."""
        noise = None if rng is None else Dropout(self.dropout, rng)
        words = _drop(self.source_embedding(source), noise, 0)
        return _drop(self.encoder(words, real=source != PADDING), noise, 1)

    def remember(self, encoded: Array, source: Array) -> Any:
        """What the decoder is given of the source, for :meth:`context`: here `b 1 2n`."""
        n = self.hidden
        return jnp.concatenate([encoded[:, -1:, :n], encoded[:, :1, n:]], axis=-1)

    def context(self, state: Array, memory: Any) -> Array:
        """What the decoder sees of the source in some states, `b k n` to `b k 2n`."""
        return jnp.broadcast_to(memory, (*state.shape[:-1], memory.shape[-1]))

    def start(self, source: Array, *, beams: int, length: int) -> RecurrentCache:
        """The cache before the first token of `beams` hypotheses of each source, of any length."""
        encoded = self.encode(source)
        state = jnp.repeat(self._first(encoded), beams, axis=1)
        return RecurrentCache(state, self.remember(encoded, source))

    def step(self, tokens: Array, cache: RecurrentCache) -> tuple[Array, RecurrentCache]:
        """Logits of the token that follows, for k hypotheses of each of b sentences.

        Args:
          tokens: `b k`, the newest token of each hypothesis.
          cache: all before it.

        Returns:
          `b k v`, float32, and the cache after it.
        """
        words = self.target_embedding(tokens)
        state, context = self._advance(self.decoder.inputs(words), cache.state, cache.memory)
        return self._logits(words, state, context), cache.replace(state=state)

    def _first(self, encoded: Array) -> Array:
        """The decoder's state before the first token, `b 1 n`, of the first backward state."""
        return jnp.tanh(self.bridge(encoded[:, :1, self.hidden :]))

    def _advance(self, inputs: Array, state: Array, memory: Any) -> tuple[Array, Array]:
        context = self.context(state, memory)
        return self.decoder.step(inputs + self.context_in(context), state), context

    def _write(self, words: Array, encoded: Array, source: Array) -> tuple[Array, Array, Array]:
        """States before and after each of given words, `b t n` both, and contexts, `b t 2n`."""
        memory = self.remember(encoded, source)

        def walk(state: Array, inputs: Array) -> tuple[Array, tuple[Array, Array, Array]]:
            after, context = self._advance(inputs[:, None], state, memory)
            return after, (state[:, 0], after[:, 0], context[:, 0])

        inputs = jnp.moveaxis(self.decoder.inputs(words), 1, 0)
        _, found = jax.lax.scan(walk, self._first(encoded), inputs)
        before, after, contexts = (jnp.moveaxis(x, 0, 1) for x in found)
        return before, after, contexts

    def _logits(
        self, words: Array, states: Array, contexts: Array, noise: Dropout | None = None
    ) -> Array:
        """A maxout layer of all that is known, then the tied embedding: `… v`."""
        x = self.readout(jnp.concatenate([states, contexts, words], axis=-1))
        one, other = jnp.moveaxis(x.reshape(*x.shape[:-1], -1, 2), -1, 0)
        x = jnp.where(one > other, one, other)
        return self.target_embedding.logits(_drop(x, noise, 3))


def _drop(x: Array, noise: Dropout | None, site: int) -> Array:
    return x if noise is None else noise.at(site).on_features(x)
