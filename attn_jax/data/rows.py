"""Rows of a batch, made of sequences of different lengths."""

import itertools
import operator
from collections.abc import Sequence

import numpy as np

from attn_jax.data.tokenizer import BOS, EOS, PAD, UNK

Batch = dict[str, np.ndarray]


class Ragged:
    """Sequences of different lengths in one array, each between a begin and an end token.

    Attributes:
      lengths: int64, one per sequence: its tokens and one of the two frames.
      flat: int32, all of them, one after another.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], name: str):
        """Copies the sequences; `name` is what error messages call them.

        Raises:
          TypeError: a token is not an integer; the message names the example.
          ValueError: a token is one of those that batches put themselves, or beyond int32.
        """
        self.lengths = np.fromiter((len(s) + 1 for s in sequences), np.int64, len(sequences))
        self._starts = np.cumsum(self.lengths + 1) - (self.lengths + 1)
        framed = ([BOS, *sequence, EOS] for sequence in sequences)
        try:
            tokens = map(operator.index, itertools.chain.from_iterable(framed))
            self.flat = np.fromiter(tokens, np.int32)
        except (TypeError, OverflowError) as error:
            raise type(error)(f"{name} {_first_odd(sequences)}: {error}") from error
        inside = np.ones(len(self.flat), bool)
        inside[self._starts] = inside[self._starts + self.lengths] = False
        wrong = np.flatnonzero(inside & (self.flat < UNK))
        if wrong.size:
            example = int(np.searchsorted(self._starts, wrong[0], side="right")) - 1
            raise ValueError(
                f"{name} {example} holds id {self.flat[wrong[0]]}: ids below {UNK} are padding,"
                " begin and end, which batches put themselves"
            )

    def framed(self, number: int) -> np.ndarray:
        """A sequence between its begin and its end token, int32."""
        start = self._starts[number]
        return self.flat[start : start + self.lengths[number] + 1]

    def padded(self, index: np.ndarray, width: int, *, begin: bool) -> np.ndarray:
        """Sequences as rows: `b width` int32, begin + tokens or tokens + end, then padding.

        Args:
          index: which sequences, `b`; a row of padding where it is -1.
          width: at least the longest of their `lengths`.
          begin: frame with begin rather than end.
        """
        column = np.arange(width)
        real = (column < self.lengths[index][:, None]) & (index >= 0)[:, None]
        position = self._starts[index][:, None] + column + (not begin)
        return np.where(real, self.flat.take(position, mode="clip"), PAD).astype(np.int32)


def _first_odd(sequences: Sequence[Sequence[int]]) -> int:
    """The number of the first sequence that is not all int32."""
    for number, sequence in enumerate(sequences):
        try:
            np.fromiter(map(operator.index, sequence), np.int32)
        except (TypeError, OverflowError):
            return number
    return -1


def pairs(source: Ragged, target: Ragged | None, index: np.ndarray, s: int, t: int) -> Batch:
    """The batch of some pairs: `source: b s`, and with targets `inputs: b t`, `labels: b t`."""
    batch = {"source": source.padded(index, s, begin=False), "index": index.astype(np.int32)}
    if target is not None:
        batch["inputs"] = target.padded(index, t, begin=True)
        batch["labels"] = target.padded(index, t, begin=False)
    return batch


def share(index: np.ndarray, shard: tuple[int, int]) -> np.ndarray:
    """The rows of host i of n, for a shard (i, n)."""
    number, count = shard
    part = len(index) // count
    return index[number * part : (number + 1) * part]


def check_shard(shard: tuple[int, int], divisor: int) -> None:
    """Refuses a shard that is none, or hosts that cannot have equally many rows."""
    number, count = shard
    if not 0 <= number < count:
        raise ValueError(f"expected shard (i, n) with 0 <= i < n, got {shard}")
    if divisor % count:
        raise ValueError(f"{count} hosts cannot share batches in multiples of {divisor} rows")
