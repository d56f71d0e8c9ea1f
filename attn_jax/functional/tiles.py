"""Where in the score matrix we are: ranges, positions, tiles, and the blocks it is cut into."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.functional.value import Array, Value


class Range(Value):
    """Consecutive integers ``start, …, start + size − 1``; `start` may be traced, `size` is static.

    >>> Range(3, 2).array()
    Array([3, 4], dtype=int32)
    """

    start: int | Array
    size: int

    @property
    def shape(self) -> tuple[int]:
        """As of the array it stands for."""
        return (self.size,)

    def array(self) -> Array:
        """The integers, `size`, int32; an iota, never a constant in the compiled program."""
        return self.start + jax.lax.iota(jnp.int32, self.size)

    def part(self, part: Range) -> Range:
        """The elements that `part` counts from this range's first."""
        return Range(self.start + part.start, part.size)

    def take(self, array: Any, axis: int) -> Any:
        """`array` at these indices along an axis; an axis of size 1 is left to broadcast.

        Indices past the end read the last element: what covers them is masked by the caller.
        """
        size = array.shape[axis]
        if size == 1:
            return array
        if isinstance(self.start, int) and self.start + self.size <= size:
            if self.size == size:
                return array
            return jax.lax.slice_in_dim(array, self.start, self.start + self.size, axis=axis)
        return jnp.take(array, self.array(), axis=axis, mode="clip")


class Positions(Value):
    """Where each query and each key stands in the sequence: what rules read as i and j.

    Args:
      q: positions of the queries, integers `t` or `*b t`; possibly traced, in any order.
      k: positions of the keys, integers `s` or `*b s`, likewise.

    >>> Positions(q=np.array([4]), k=np.arange(5))
    Positions(int64[1], int64[5])
    """

    q: Any
    k: Any

    def __post_init__(self) -> None:
        for name in ("q", "k"):
            object.__setattr__(self, name, _signed(getattr(self, name)))
        super().__post_init__()

    @classmethod
    def aligned(cls, end: str, t: int, s: int) -> Positions:
        """The positions that "start" (first query at first key) and "end" (last at last) stand for.

        Raises:
          ValueError: `end` is neither.

        >>> Positions.aligned("end", 1, 5)
        Positions(Range(4, 1), Range(0, 5))
        """
        if end not in ("start", "end"):
            raise ValueError(f'positions must be "start", "end" or Positions(q, k), got {end!r}')
        return cls(Range(s - t if end == "end" else 0, t), Range(0, s))


class Tile(Value):
    """A rectangle of the score matrix: which queries and keys, by index and by position.

    `queries` and `keys` are ranges of indices into the whole arrays; `positions` are those of just
    these queries and keys.
    """

    queries: Range
    keys: Range
    positions: Positions

    @property
    def i(self) -> Array:
        """Query positions, `t 1` or `*b 1 t 1`, to broadcast against scores `*b h t s`."""
        q = positions_array(self.positions.q)
        return q[:, None] if q.ndim == 1 else q[..., None, :, None]

    @property
    def j(self) -> Array:
        """Key positions, `1 s` or `*b 1 1 s`."""
        k = positions_array(self.positions.k)
        return k[None, :] if k.ndim == 1 else k[..., None, None, :]

    def of_queries(self, array: Any) -> Any:
        """An array per query, `*b t`, on this tile: `*b 1 t 1`."""
        return self.queries.take(array, -1)[..., None, :, None]

    def of_keys(self, array: Any) -> Any:
        """An array per key, `*b s`, on this tile: `*b 1 1 s`."""
        return self.keys.take(array, -1)[..., None, None, :]

    def of_both(self, array: Any) -> Any:
        """An array that broadcasts to `*b h t s`, on this tile."""
        return self.keys.take(self.queries.take(array, -2), -1)

    def part(self, queries: Range, keys: Range) -> Tile:
        """The tile of these queries and keys, counted from this one's first."""
        q, k = self.positions.q, self.positions.k
        return Tile(
            self.queries.part(queries),
            self.keys.part(keys),
            Positions(_part(q, queries), _part(k, keys)),
        )


def whole(t: int, s: int, positions: Positions | str | None = None) -> Tile:
    """The whole score matrix as one tile; positions are indices ("start") unless given."""
    if positions is None or isinstance(positions, str):
        positions = Positions.aligned(positions or "start", t, s)
    return Tile(Range(0, t), Range(0, s), positions)


def positions_array(positions: Any) -> Array:
    """Positions as an integer array, `t` or `*b t`."""
    return positions.array() if isinstance(positions, Range) else jnp.asarray(positions)


def _signed(positions: Any) -> Any:
    """Integers wide enough to be subtracted; lists become arrays, all else stays as it is."""
    if isinstance(positions, list | tuple):
        positions = np.asarray(positions)
    if not isinstance(positions, np.ndarray | jax.Array):
        return positions
    kind, width = positions.dtype.kind, positions.dtype.itemsize
    narrow = kind == "u" or (kind == "i" and width < 4)
    return positions.astype(np.int32) if narrow else positions


def _part(positions: Any, part: Range) -> Any:
    if isinstance(positions, Range):
        return positions.part(part)
    return part.take(positions, -1)


class Cut(Value):
    """An axis of length `total` cut into blocks of `size`; the last block may be shorter."""

    total: int
    size: int

    def __len__(self) -> int:
        return -(-self.total // self.size)

    def _reduce(self, operation: str, array: Any, axis: int) -> Any:
        """One number a block, in numpy for numpy arrays and traced otherwise."""
        xp = np if isinstance(array, np.ndarray) else jnp
        if array.shape[axis] == 1:  # broadcasts over every block
            return array
        axis %= array.ndim
        padding = [(0, 0)] * array.ndim
        padding[axis] = (0, len(self) * self.size - self.total)
        array = xp.pad(array, padding, mode="edge")
        array = array.reshape(*array.shape[:axis], len(self), self.size, *array.shape[axis + 1 :])
        return getattr(xp, operation)(array, axis=axis + 1)

    def any(self, array: Any, axis: int = -1) -> Any:
        """Whether any entry of each block is True."""
        return self._reduce("any", array, axis)

    def all(self, array: Any, axis: int = -1) -> Any:
        """Whether all entries of each block are True."""
        return self._reduce("all", array, axis)

    def span(self, positions: Any) -> tuple[Any, Any]:
        """The lowest and the highest position in each block, each `n` or `*b n`."""
        if isinstance(positions, Range):
            first = np.arange(len(self)) * self.size
            last = np.minimum(first + self.size, self.total) - 1
            return positions.start + first, positions.start + last
        return self._reduce("min", positions, -1), self._reduce("max", positions, -1)


class Blocks(Value):
    """The score matrix cut into tiles, for asking a mask which of them it can leave out.

    With ``static=True`` only what is known while tracing is used (numpy arrays and Python numbers);
    a mask that would have to read a traced array answers (may, must) = (True, False).
    """

    queries: Cut
    keys: Cut
    positions: Positions
    static: bool = False

    def knows(self, *arrays: Any) -> bool:
        """Whether these arrays may be read."""
        return not self.static or all(isinstance(a, np.ndarray | int | np.generic) for a in arrays)

    def spans(self) -> tuple[Any, Any, Any, Any] | None:
        """Lowest and highest query position (`… nq 1`), lowest and highest key position (`… 1 nk`).

        None where they are not known.
        """
        q, k = self.positions.q, self.positions.k
        if not self.knows(*(p.start if isinstance(p, Range) else p for p in (q, k))):
            return None
        (q_low, q_high), (k_low, k_high) = self.queries.span(q), self.keys.span(k)
        return _column(q_low), _column(q_high), _row(k_low), _row(k_high)


def _column(x: Any) -> Any:
    return x[:, None] if x.ndim == 1 else x[..., None, :, None]


def _row(x: Any) -> Any:
    return x[None, :] if x.ndim == 1 else x[..., None, None, :]
