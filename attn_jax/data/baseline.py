"""Translation by memory: what a corpus's training split already answers."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from attn_jax.data.corpora import Pairs

LENGTHS = (2, 3, 4)  # characters


class NearestNeighbour:
    r"""Translates a sentence as the training sentence most like it was translated.

    Likeness is the cosine of TF-IDF vectors over the character n-grams (n = 2, 3, 4) of the
    sentence between two marks: with a count :math:`c` in the sentence, and :math:`d` of :math:`D`
    training sentences holding the n-gram, its weight is :math:`c (1 + \log\frac{1 + D}{1 + d})`.
    Of equally near sentences the first in training order is taken, so that a sentence with no known
    n-gram is translated as the first of all. A model that is no better than this has memorised.

    Memory and the time of a query grow with the training sentences that share n-grams with it;
    queries are answered one at a time.

    Args:
      train: the pairs to remember.

    Raises:
      ValueError: there are none.

    References: Salton and Buckley, Term-weighting approaches in automatic text retrieval (1988).

    >>> memory = NearestNeighbour(Pairs(["two cats", "three dogs"], ["zwei Katzen", "drei Hunde"]))
    >>> memory.translate(["two dogs and a cat", "dogs"])
    ['zwei Katzen', 'drei Hunde']
    """

    def __init__(self, train: Pairs):
        if not len(train):
            raise ValueError("expected at least one training pair to remember; there are none")
        self._targets = train.target
        self._columns: dict[str, int] = {}
        sentences, columns, counts = [], [], []
        for sentence, text in enumerate(train.source):
            for ngram, count in _ngrams(text).items():
                sentences.append(sentence)
                columns.append(self._columns.setdefault(ngram, len(self._columns)))
                counts.append(count)
        column = np.array(columns, np.int32)
        frequency = np.bincount(column)
        self._rarity = 1 + np.log((1 + len(train)) / (1 + frequency))
        # The matrix of weights, column by column: the sentences that hold an n-gram lie together.
        order = np.argsort(column, kind="stable")
        self._sentence = np.array(sentences, np.int32)[order]
        weight = (np.array(counts) * self._rarity[column])[order]
        norm = np.sqrt(np.bincount(self._sentence, weight**2, minlength=len(train)))
        self._weight = (weight / norm[self._sentence]).astype(np.float32)
        self._ends = np.cumsum(frequency)
        self._starts = self._ends - frequency

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """One target of the training split per sentence."""
        return [self._targets[self._nearest(sentence)] for sentence in sentences]

    def _nearest(self, sentence: str) -> int:
        similarity = np.zeros(len(self._targets), np.float32)
        for ngram, count in _ngrams(sentence).items():
            column = self._columns.get(ngram)
            if column is not None:
                held = slice(self._starts[column], self._ends[column])
                weight = np.float32(count * self._rarity[column])
                similarity[self._sentence[held]] += weight * self._weight[held]
        return int(similarity.argmax())


def _ngrams(text: str) -> Counter[str]:
    text = f"\x02{text}\x03"
    return Counter(text[at : at + n] for n in LENGTHS for at in range(len(text) - n + 1))
