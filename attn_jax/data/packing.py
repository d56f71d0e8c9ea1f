"""Batches whose rows hold several sentence pairs each, so that little of them is padding."""

import functools
from collections.abc import Sequence

import numpy as np

from attn_jax.data.batches import PairBatches
from attn_jax.data.rows import Batch, share
from attn_jax.data.tokenizer import PAD

_OPEN = 64
"""How many rows are kept open while they are filled; more would save less than a hundredth."""


class PackedBatches(PairBatches):
    """Sentence pairs as batches of one shape, several pairs in a row, epoch after epoch without end.

    Each batch is a dict of int32 arrays: `source: b s`, `inputs: b t` and `labels: b t` as of
    ``Batches``, pair after pair; `source_segments: b s` and `target_segments: b t`, which number
    the pairs of a row from 0 and are -1 on padding; and `index: b`, the number of the row in its epoch,
    -1 for one that is all padding. s = t = `longest`.

    Pairs are packed once; each epoch holds every pair once, deals those of the same two lengths out
    anew, and shuffles the rows.

    Args:
      sources, targets, tokens, seed, divisor, shard: as of ``Batches``.
      longest: the length of a row; pairs with a longer side are dropped.

    Attributes:
      rows: how many rows an epoch has, beside those that fill up its last batch.

    Raises:
      TypeError, ValueError: as of ``Batches``.

    References: documents that do not see each other in one row: Krell et al. (2021).

    >>> batches = PackedBatches([[5, 6], [7]], [[8], [9, 10]], tokens=6, longest=6, divisor=1)
    >>> batch = batches[0]
    >>> batch["source"].tolist(), batch["source_segments"].tolist()
    ([[5, 6, 2, 7, 2, 0]], [[0, 0, 0, 1, 1, -1]])
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        tokens: int = 2048,
        longest: int = 256,
        seed: int = 0,
        divisor: int = 8,
        shard: tuple[int, int] = (0, 1),
    ):
        settings = dict(tokens=tokens, longest=longest, seed=seed, divisor=divisor)
        super().__init__(sources, targets, shard, **settings)
        self.identity += ", packed"
        self._longest = longest
        self._rows_at_once = max(divisor, tokens // longest // divisor * divisor)
        first = self._kept[self._order(self._noise(0), len(self._kept))]
        packed = pack(self._sources.lengths[first], self._targets.lengths[first], longest)
        self.rows = len(packed)
        self.per_epoch = -(-self.rows // self._rows_at_once)
        self._bounds = np.cumsum([0, *map(len, packed)])
        places = first[np.concatenate(packed)]  # a pair that has the lengths of each place
        self._by_lengths = self._alike(places)
        self._plan = functools.lru_cache(maxsize=2)(self._arrange)

    def _alike(self, pairs: np.ndarray) -> np.ndarray:
        """An order that sorts pairs by their two lengths, and leaves equals as they are."""
        s, t = self._sources.lengths[pairs], self._targets.lengths[pairs]
        return np.lexsort((t, s))

    def _arrange(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Which pair stands at each place in an epoch, and the order of the rows."""
        noise = self._noise(epoch)
        order = self._kept[self._order(noise, len(self._kept))]
        dealt = np.empty_like(order)
        dealt[self._by_lengths] = order[self._alike(order)]
        rows = self._order(noise, self.rows)
        return dealt, np.pad(rows, (0, -self.rows % self._rows_at_once), constant_values=-1)

    @property
    def padding(self) -> float:
        """The part of the cells of `source` and `labels` that is padding."""
        return self._padding(2 * self._longest * self._rows_at_once * self.per_epoch)

    def __getitem__(self, number: int) -> Batch:
        epoch, place = divmod(int(number), self.per_epoch)
        pairs, rows = self._plan(epoch)
        index = share(rows[place * self._rows_at_once :][: self._rows_at_once], self._shard)
        shape = len(index), self._longest
        batch = {name: np.full(shape, PAD, np.int32) for name in ("source", "inputs", "labels")}
        batch |= {f"{side}_segments": np.full(shape, -1, np.int32) for side in ("source", "target")}
        for row, number_of_row in enumerate(index):
            if number_of_row >= 0:
                inside = pairs[slice(*self._bounds[number_of_row : number_of_row + 2])]
                self._fill({name: array[row] for name, array in batch.items()}, inside)
        return {**batch, "index": index.astype(np.int32)}

    def _fill(self, row: Batch, pairs: np.ndarray) -> None:
        """Writes pairs into a row, one after another."""
        s = t = 0
        for segment, pair in enumerate(pairs):
            source, target = self._sources.framed(pair), self._targets.framed(pair)
            here, there = slice(s, s := s + len(source) - 1), slice(t, t := t + len(target) - 1)
            row["source"][here], row["source_segments"][here] = source[1:], segment
            row["inputs"][there], row["labels"][there] = target[:-1], target[1:]
            row["target_segments"][there] = segment


def pack(s: np.ndarray, t: np.ndarray, size: int) -> list[list[int]]:
    """Puts pairs of lengths into rows that hold `size` on either side, each where it fits best.

    Of the open rows that a pair fits into it takes the fullest; where there is none it opens one, and
    once too many are open the fullest is closed. Time is linear in the number of pairs.

    Returns:
      For each row the numbers of its pairs, in their order.

    >>> pack(np.array([3, 4, 2, 1]), np.array([3, 4, 1, 1]), 5)
    [[0, 2], [1, 3]]
    """
    rows: list[list[int]] = []
    opened: list[int] = []  # numbers of rows
    free = np.empty((0, 2), np.int64)
    for pair, need in enumerate(np.stack([s, t], axis=1)):
        fits = np.flatnonzero((free >= need).all(axis=1))
        if fits.size:
            best = fits[np.argmin(free[fits].sum(axis=1))]
            rows[opened[best]].append(pair)
            free[best] -= need
            continue
        if len(opened) == _OPEN:
            fullest = int(np.argmin(free.sum(axis=1)))
            del opened[fullest]
            free = np.delete(free, fullest, axis=0)
        opened.append(len(rows))
        rows.append([pair])
        free = np.concatenate([free, [size - need]])
    return rows
