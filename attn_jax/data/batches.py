"""Batches of a bounded number of shapes, in an order that a seed and an epoch determine."""

import functools
import hashlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_jax.data.buckets import boundaries
from attn_jax.data.rows import Batch, Ragged, check_shard, pairs, share

_PREFETCH = 8  # batches made ahead, in one thread


class PairBatches:
    """Sentence pairs in batches, however they are put into rows; what follows is the subclass's.

    Attributes:
      dropped: number of pairs that are too long.
      per_epoch: batches in an epoch, the same in all.
      identity: what the order depends on, in a line; batches with equal identities are equal.
    """

    per_epoch: int

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        shard: tuple[int, int],
        **settings: int,
    ):
        if len(sources) != len(targets):
            raise ValueError(
                f"expected a target for every source: {len(sources)} sources,"
                f" {len(targets)} targets"
            )
        longest, self._seed = settings["longest"], settings["seed"]
        for name, value in settings.items():
            if name not in ("longest", "seed") and value < 1:
                raise ValueError(f"expected {name} to be at least 1, got {value}")
        if not 0 <= self._seed < 2**64:
            raise ValueError(f"expected seed to be from 0 to 2**64 - 1, got {self._seed}")
        check_shard(shard, settings["divisor"])
        self._shard = shard
        self._sources, self._targets = Ragged(sources, "source"), Ragged(targets, "target")
        s, t = self._sources.lengths, self._targets.lengths
        self._longer = np.maximum(s, t)
        self._kept = np.flatnonzero(self._longer <= longest)
        self.dropped = len(s) - len(self._kept)
        if not len(self._kept):
            raise ValueError(f"none of {len(s)} pairs is within {longest} tokens a side")
        digest = hashlib.sha256()
        for array in (s, self._sources.flat, t, self._targets.flat):
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        said = ", ".join(f"{name}={value}" for name, value in settings.items())
        self.identity = f"{len(s)} pairs {digest.hexdigest()[:16]}, {said}"

    def _order(self, noise: np.random.Philox, count: int) -> np.ndarray:
        """A shuffle: raw bits sorted, since numpy promises to keep those, and not its shuffles."""
        return np.argsort(noise.random_raw(count), kind="stable")

    def _noise(self, epoch: int) -> np.random.Philox:
        return np.random.Philox(key=np.array([self._seed, epoch], np.uint64))

    def _padding(self, cells: int) -> float:
        lengths = self._sources.lengths + self._targets.lengths
        return float(1 - lengths[self._kept].sum() / cells)

    def __getitem__(self, number: int) -> Batch:
        """Batch `number`, counted from the beginning of epoch 0: random access, nothing kept."""
        raise NotImplementedError

    def __iter__(self) -> "BatchIterator":
        return BatchIterator(self)


class Batches(PairBatches):
    """Sentence pairs as padded batches, epoch after epoch without end.

    Each batch is a dict of int32 arrays: `source: b s`, tokens then end; `inputs: b t`, begin
    then tokens; `labels: b t`, tokens then end; all padded with 0; and `index: b`, the example's
    number in the corpus, -1 for a row that is all padding.

    Pairs are sorted into at most `buckets` buckets by the longer of their two lengths, and
    `(b, s, t)` is fixed per bucket, with `b * max(s, t)` close to `tokens`: XLA compiles that
    many programs and no more. What does not fill a batch of its bucket moves up to the next, so
    that an epoch holds every example once and at most one batch that is not full.

    The batches of an epoch are a function of the examples, the arguments and `(seed, epoch)`:
    not of the platform, the number of hosts, or where training was interrupted.

    Args:
      sources: ids of each source sentence, without begin and end.
      targets: ids of its translation.
      tokens: cells of a batch, padding included, on its longer side.
      longest: pairs with a side of more tokens than this, begin or end included, are dropped, and
        counted in `dropped`.
      buckets: how many shapes there may be.
      seed: of the order.
      divisor: rows of a batch are a multiple of this, and at least this, so that devices and
        hosts can share them evenly.
      shard: `(i, n)` where n hosts share every batch and this is host i: it gets the i-th of n
        equal parts of the rows.

    Attributes:
      shapes: `(b, s, t)` of each bucket, over all hosts.
      dropped: number of pairs that are too long.
      per_epoch: batches in an epoch, the same in all.
      identity: what the order depends on, in a line; batches with equal identities are equal.

    Raises:
      TypeError: a token is not an integer; the message names the example.
      ValueError: no pair is short enough, or an argument is out of range.

    >>> batches = Batches([[5, 6], [7]], [[8], [9, 10, 11]], tokens=16, divisor=2, buckets=1)
    >>> batches.shapes, batches.per_epoch
    (((4, 3, 4),), 1)
    >>> batch = next(iter(batches))
    >>> sorted(batch["index"].tolist())
    [-1, -1, 0, 1]
    >>> batch["labels"][batch["index"].tolist().index(1)].tolist()
    [9, 10, 11, 2]
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        tokens: int = 2048,
        longest: int = 256,
        buckets: int = 8,
        seed: int = 0,
        divisor: int = 8,
        shard: tuple[int, int] = (0, 1),
    ):
        settings = dict(tokens=tokens, longest=longest, buckets=buckets, seed=seed, divisor=divisor)
        super().__init__(sources, targets, shard, **settings)
        s, t, lengths = self._sources.lengths, self._targets.lengths, self._longer
        bounds = boundaries(lengths[self._kept], buckets)
        self._bucket = np.searchsorted(bounds, lengths)
        members = [self._kept[self._bucket[self._kept] == i] for i in range(len(bounds))]
        # Wide enough for what moves up from below, too.
        widths = np.maximum.accumulate([(s[m].max(), t[m].max()) for m in members])
        self.shapes: tuple[tuple[int, int, int], ...] = tuple(
            (max(divisor, tokens // max(w) // divisor * divisor), *w) for w in widths.tolist()
        )
        self._plan = functools.lru_cache(maxsize=2)(self._arrange)
        self.per_epoch = len(self._plan(0))

    def _arrange(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        """The batches of an epoch: for each its bucket and the examples in its rows."""
        noise = self._noise(epoch)
        order = self._kept[self._order(noise, len(self._kept))]
        plan: list[tuple[int, np.ndarray]] = []
        waiting = order[:0]
        for bucket, (rows, _, _) in enumerate(self.shapes):
            waiting = np.concatenate([waiting, order[self._bucket[order] == bucket]])
            if bucket == len(self.shapes) - 1:
                waiting = np.pad(waiting, (0, -len(waiting) % rows), constant_values=-1)
            full = len(waiting) // rows * rows
            plan += [(bucket, index) for index in waiting[:full].reshape(-1, rows)]
            waiting = waiting[full:]
        return [plan[i] for i in self._order(noise, len(plan))]

    @property
    def padding(self) -> float:
        """The part of the cells of `source` and `labels` that is padding, over the first epoch."""
        return self._padding(
            sum(r * (s + t) for r, s, t in (self.shapes[b] for b, _ in self._plan(0)))
        )

    def __getitem__(self, number: int) -> Batch:
        epoch, place = divmod(int(number), self.per_epoch)
        bucket, index = self._plan(epoch)[place]
        _, s, t = self.shapes[bucket]
        return pairs(self._sources, self._targets, share(index, self._shard), s, t)


class BatchIterator:
    """Walks through batches, made ahead of use, from any place that `get_state` gave.

    >>> batches = Batches([[5], [6, 7]], [[8], [9]], tokens=2, divisor=1)
    >>> walk, again = iter(batches), iter(batches)
    >>> _ = [next(walk) for _ in range(3)]
    >>> again.set_state(walk.get_state())
    >>> again.batch, again.epoch
    (3, 1)
    >>> (next(walk)["index"] == next(again)["index"]).item()
    True
    """

    def __init__(self, batches: PairBatches):
        """Starts at the first batch of the first epoch."""
        import grain  # It takes most of a second, which other readers of this package are spared.

        self._batches = batches
        self._walk: Any = iter(
            grain.MapDataset.source(_Endless(batches)).to_iter_dataset(
                grain.ReadOptions(num_threads=1, prefetch_buffer_size=_PREFETCH)
            )
        )

    def __iter__(self) -> "BatchIterator":
        return self

    def __next__(self) -> Batch:
        return next(self._walk)

    @property
    def batch(self) -> int:
        """How many batches have been given out, all epochs together."""
        return self._walk.get_state()["next_index"]

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self.batch // self._batches.per_epoch

    def get_state(self) -> dict[str, Any]:
        """The place, exactly, as a small dict that JSON can write."""
        return {"batch": self.batch, "identity": self._batches.identity}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes to the place of a `get_state`.

        Raises:
          ValueError: the state is of other batches: other data, size, seed or lengths.
        """
        if state["identity"] != self._batches.identity:
            raise ValueError(
                "cannot go on in the middle of other batches: the state is of"
                f" ({state['identity']}), these are ({self._batches.identity});"
                " restore that setting, or start anew"
            )
        self._walk.set_state({"next_index": int(state["batch"])})


class _Endless:
    """Batches as the random-access source that Grain reads."""

    def __init__(self, batches: PairBatches):
        self._batches = batches

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, number: int) -> Batch:
        return self._batches[number]
