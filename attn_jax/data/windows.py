"""Pieces of one long sequence of tokens, for models that say which token follows."""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attn_jax.data.rows import Batch
from attn_jax.data.tokenizer import EOS


def joined(documents: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Documents in one sequence, an end token before each and after the last.

    >>> joined([[5, 6], [7]])
    array([2, 5, 6, 2, 7, 2], dtype=int32)
    """
    return np.array([EOS, *(token for ids in documents for token in (*ids, EOS))], np.int32)


class Windows:
    """Random pieces of a sequence as batches without end, each a function of its number and the seed.

    Each batch is a dict of int32 arrays: `inputs: b t`; `labels: b t`, the tokens that follow them;
    and `index: b`, the number of the piece.

    Args:
      tokens: the sequence, of which no token is padding.
      length: t.
      rows: b.
      seed: of where pieces start.

    Attributes:
      identity: what the pieces depend on, in a line.

    Raises:
      ValueError: the sequence is too short for one piece.

    >>> batch = Windows(np.arange(1, 9), length=3, rows=2)[0]
    >>> (batch["labels"] - batch["inputs"]).tolist(), batch["index"].tolist()
    ([[1, 1, 1], [1, 1, 1]], [0, 1])
    """

    def __init__(self, tokens: NDArray[np.int32], *, length: int, rows: int, seed: int = 0):
        if length < 1 or rows < 1:
            raise ValueError(f"expected a length and rows of at least 1, got {length} and {rows}")
        if len(tokens) <= length:
            raise ValueError(
                f"expected more than {length} tokens to cut pieces of {length} from, and one that"
                f" follows; got {len(tokens)}: give more text, or a smaller length"
            )
        self._tokens, self._length, self._rows, self._seed = tokens, length, rows, seed
        digest = hashlib.sha256(np.asarray(tokens, "<i4").tobytes()).hexdigest()[:16]
        self.identity = f"{len(tokens)} tokens {digest}, {length=}, {rows=}, {seed=}"

    def __getitem__(self, number: int) -> Batch:
        """Batch `number`, from 0."""
        index = number * self._rows + np.arange(self._rows)
        starts = len(self._tokens) - self._length
        noise = np.random.Philox(key=np.array([self._seed, number], np.uint64))
        at = noise.random_raw(self._rows) % np.uint64(starts)
        return _cut(self._tokens, at.astype(np.int64), self._length, index)


def consecutive(tokens: NDArray[np.int32], *, length: int, rows: int) -> Iterator[Batch]:
    """The whole sequence in batches, each token but the first a label once.

    Args:
      tokens: the sequence, of which no token is padding.
      length: t; the last piece is padded with 0.
      rows: b; batches are filled up with rows of padding, whose `index` is −1.

    >>> [batch["labels"].tolist() for batch in consecutive(np.arange(1, 7), length=3, rows=2)]
    [[[2, 3, 4], [5, 6, 0]]]
    """
    count = -(-(len(tokens) - 1) // length)
    padded = np.pad(tokens, (0, count * length + 1 - len(tokens)))
    for first in range(0, count, rows):
        number = np.arange(first, first + rows)
        index = np.where(number < count, number, -1)
        batch = _cut(padded, np.maximum(index, 0) * length, length, index)
        real = (index >= 0)[:, None]
        yield {
            "inputs": np.where(real, batch["inputs"], 0),
            "labels": np.where(real, batch["labels"], 0),
            "index": batch["index"],
        }


def _cut(tokens: NDArray[np.int32], at: np.ndarray, length: int, index: np.ndarray) -> Batch:
    pieces = tokens[at[:, None] + np.arange(length + 1)].astype(np.int32)
    return {
        "inputs": pieces[:, :-1],
        "labels": pieces[:, 1:],
        "index": index.astype(np.int32),
    }
