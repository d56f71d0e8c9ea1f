"""Bahdanau: a recurrent translator that looks at all of the source, where Seq2Seq has one vector."""

from __future__ import annotations

from typing import Any, Self

import jax
from flax import nnx

from attn_jax.backends.dispatch import attend, attention_weights
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import valid
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.functional.scores import additive
from attn_jax.models.seq2seq import PADDING, RecurrentCache, RecurrentConfig, Seq2Seq
from attn_jax.modules.attention import initializer
from attn_jax.modules.trainable import trainable
from attn_jax.modules.watching import Look

__all__ = ["Bahdanau", "RecurrentConfig", "Seq2Seq"]
Array = jax.Array


class Bahdanau(Seq2Seq):
    r"""A decoder that looks at every state of the encoder, by additive attention.

    .. math:: c_i = \sum_j \mathrm{softmax}_j(v^\top \tanh(W s_{i-1} + U h_j))\, h_j

    The query is the previous state; `rule` says how it meets the keys, and can be replaced.

    Args:
      config: the sizes.
      rngs: where the initial parameters come from.

    Reference: Bahdanau, Cho and Bengio (2015), section 3 and appendix A.

    >>> sizes = RecurrentConfig(11, None, 8, 6, 5)
    >>> source, inputs = jax.numpy.ones((2, 1, 4), int)
    >>> jax.eval_shape(lambda: Bahdanau(sizes, rngs=nnx.Rngs(0))(source, inputs)).shape
    (1, 4, 11)
    """

    rule: Rule = nnx.data()

    def __init__(self, config: RecurrentConfig, *, rngs: nnx.Rngs) -> None:
        super().__init__(config, rngs=rngs)
        n, a = config.hidden, config.attention
        w_q, w_k = (initializer(rngs.params(), (width, a)) for width in (n, 2 * n))
        v = jax.random.normal(rngs.params(), (a,)) * a**-0.5
        self.rule = trainable(Rule(additive(w_q, w_k, v)))
        self.backend: Any = "auto"

    @classmethod
    def rnnsearch(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """The paper's RNNsearch, but for the output's maxout, as wide as the table tied to it.

        The paper prints no number of parameters.
        """
        return cls(RecurrentConfig(target_vocabulary=30_000), rngs=rngs or nnx.Rngs(0))

    def remember(self, encoded: Array, source: Array) -> tuple[PreparedKeys, Array, Mask]:
        """Keys, prepared once for all steps, values, and which of them are not padding."""
        memory = encoded[:, :, None]
        return self.rule.prepare(memory), memory, valid(source != PADDING)

    def context(self, state: Array, memory: tuple[PreparedKeys, Array, Mask]) -> Array:
        """The states of the encoder, weighed by how well they match: `b k n` to `b k 2n`."""
        keys, values, mask = memory
        rule = self.rule & mask
        return attend(state[:, :, None], keys, values, rule=rule, backend=self.backend)[:, :, 0]

    def step_and_look(
        self, tokens: Array, cache: RecurrentCache
    ) -> tuple[Array, RecurrentCache, Array]:
        """As :meth:`step`, and where it looks in the source, `b k s`."""
        keys, _, mask = cache.memory
        seen = attention_weights(cache.state[:, :, None], keys, rule=self.rule & mask)
        return *self.step(tokens, cache), seen[:, 0]

    def cross_look(self, source: Array, inputs: Array) -> Look:
        """What each step asks of the source, once all are known; no dropout.

        The recurrence itself cannot be watched by ``capture``.
        """
        encoded = self.encode(source)
        before, _, contexts = self._write(self.target_embedding(inputs), encoded, source)
        keys, values, mask = self.remember(encoded, source)
        return Look(before[:, :, None], keys, values, self.rule & mask, None, contexts[:, :, None])

    def cross_attention(self, source: Array, inputs: Array) -> tuple[Array, ...]:
        """Where the decoder looks in the source, one layer of one head: `b 1 t s`; no dropout."""
        return (self.cross_look(source, inputs).weights(),)
