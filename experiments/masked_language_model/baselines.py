"""What counting knows of a hidden token: how frequent it is, and what its neighbours foretell."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Probabilities = Callable[[int, int], NDArray[np.float64]]
"""Of every token between a left and a right neighbour, `v`."""


class Counts:
    r"""Single tokens and pairs of a text, smoothed by Witten and Bell's method.

    .. math:: p(x) = \frac{N(x) + u / v}{N + u}, \quad
              p(x \mid l) = \frac{N(l x) + u(l)\, p(x)}{N(l) + u(l)}

    There N counts, and u is how many different tokens there were, or followed l.

    Args:
      tokens: a text, `n`.
      vocabulary: v.

    Reference: Witten and Bell (1991), method C.
    """

    def __init__(self, tokens: NDArray[np.int32], vocabulary: int):
        shape = (vocabulary, vocabulary)
        pairs = csr_array((np.ones(len(tokens) - 1), (tokens[:-1], tokens[1:])), shape=shape)
        pairs.sum_duplicates()
        self._pairs, self._into = pairs, pairs.tocsc()
        self._followed, self._distinct = pairs.sum(1), np.diff(pairs.indptr)
        self.count = np.bincount(tokens, minlength=vocabulary)
        different = np.count_nonzero(self.count)
        self.alone = (self.count + different / vocabulary) / (len(tokens) + different)

    def after(self, left: int) -> NDArray[np.float64]:
        """Of every token after a token, `v`."""
        distinct = self._distinct[left]
        if not distinct:
            return self.alone
        row = self._pairs[[left]].toarray()[0]
        return (row + distinct * self.alone) / (self._followed[left] + distinct)

    def before(self, right: int) -> NDArray[np.float64]:
        """Of a token after every token, `v`."""
        column = self._into[:, [right]].toarray()[:, 0]
        total = self._followed + self._distinct
        known = (column + self._distinct * self.alone[right]) / np.maximum(total, 1)
        return np.where(self._distinct > 0, known, self.alone[right])

    def between(self, left: int, right: int) -> NDArray[np.float64]:
        r"""Of every token between two, :math:`\propto p(x \mid l)\, p(r \mid x)`, as of a chain."""
        p = self.after(left) * self.before(right)
        return p / p.sum()

    def ways(self) -> dict[str, Probabilities]:
        """By what they know: nothing, the left neighbour, both neighbours."""
        return {
            "how frequent tokens are": lambda left, right: self.alone,
            "the left neighbour": lambda left, right: self.after(left),
            "both neighbours": self.between,
        }
