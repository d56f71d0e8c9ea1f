"""Biases of position: functions of where a query and a key stand, with a few numbers to learn."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from attn_jax.functional.bias import Bias
from attn_jax.functional.mask import Axes
from attn_jax.functional.score import per_head
from attn_jax.functional.tiles import Tile
from attn_jax.functional.value import Array, leaf, show


class _Positional(Bias):
    @property
    def reads_positions(self) -> bool:
        return True


class alibi(_Positional):
    r"""A penalty in proportion to distance, :math:`-m_h |i - j|`.

    Given `heads`, the slopes are :math:`2^{-8n/h}`, n = 1 … h, where h is a power of two; else those of
    the power of two below it, and every other slope of the power of two above for the heads that remain.

    Args:
      heads: h, the number of query heads; or instead
      slopes: m, per position of distance; a scalar, or one per query head, `h`.

    Shapes:
      values: `h t s`, or `*b h t s` where positions differ between batch rows.

    Raises:
      ValueError: neither or both are given, or `heads` is no positive integer.

    Reference: Press, Smith and Lewis (2022), section 3 and, for other head counts, its code.

    >>> alibi(4).slopes
    Array([0.25      , 0.0625    , 0.015625  , 0.00390625], dtype=float32)
    >>> alibi(6)
    alibi(slopes=float32[6])
    """

    slopes: Array = leaf()

    def __init__(self, heads: int | None = None, slopes: Any = None) -> None:
        if (heads is None) == (slopes is None):
            raise ValueError(
                "biases.alibi takes the number of query heads, alibi(8), or slopes=…, and not both"
            )
        object.__setattr__(self, "slopes", _slopes(heads) if slopes is None else slopes)
        self.__post_init__()

    def check(self, axes: Axes) -> None:
        if jnp.shape(self.slopes) not in ((), (axes.h,)):
            raise ValueError(
                f"biases.alibi(slopes) must be a scalar or one per query head, ({axes.h},); got "
                f"shape {jnp.shape(self.slopes)}"
            )

    def values(self, tile: Tile) -> Array:
        return -per_head(jnp.asarray(self.slopes)) * jnp.abs(tile.i - tile.j)

    def __repr__(self) -> str:
        return f"alibi(slopes={show(self.slopes)})"


def _slopes(heads: Any) -> Array:
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1:
        raise ValueError(
            f"biases.alibi(heads) must be an integer of at least 1, got {heads!r}; to give the slopes "
            "themselves write alibi(slopes=…)"
        )
    power = 1 << (heads.bit_length() - 1)

    def geometric(n: int) -> np.ndarray:
        return 2.0 ** (-8 * np.arange(1, n + 1) / n)

    rest = geometric(2 * power)[::2][: heads - power]
    return jnp.asarray(np.concatenate([geometric(power), rest]), float)


class t5(_Positional):
    r"""A learned number for each bucket of distances, :math:`T[\mathrm{bucket}(j - i), h]`.

    Distances up to half of the buckets have a bucket each; longer ones share buckets that grow
    geometrically up to `max_distance`, and all that are longer share the last. Bidirectional buckets
    are split in half between keys up to the query and keys after it; otherwise all keys after the query
    fall into bucket 0.

    Args:
      table: `buckets h`.
      bidirectional: whether keys after the query have buckets of their own.
      max_distance: from here on, in positions, distances are not told apart.

    Shapes:
      values: `h t s`, or `*b h t s` where positions differ between batch rows.

    Raises:
      ValueError: the table is not of two axes, or has too few or an odd number of buckets for its kind,
        or `max_distance` leaves no room for shared buckets.

    Reference: Raffel et al. (2020), section 2.1; the buckets are those of its code.

    >>> from attn_jax.functional.tiles import whole
    >>> bias = t5(jnp.arange(32.0)[:, None])
    >>> bias.values(whole(1, 10))
    Array([[[ 0., 17., 18., 19., 20., 21., 22., 23., 24., 24.]]], dtype=float32)
    """

    table: Array = leaf()
    bidirectional: bool = True
    max_distance: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = jnp.shape(self.table)
        sides = 2 if self.bidirectional else 1
        if len(shape) != 2 or shape[0] % sides or shape[0] < 2 * sides:
            raise ValueError(
                f"biases.t5(table) must be buckets h, with {'an even number of ' * (sides - 1)}at "
                f"least {2 * sides} buckets; got shape {shape}"
            )
        if self.max_distance <= shape[0] // sides // 2:
            raise ValueError(
                f"biases.t5(max_distance) must exceed {shape[0] // sides // 2}, the distances with a "
                f"bucket of their own; got {self.max_distance}"
            )

    def check(self, axes: Axes) -> None:
        if jnp.shape(self.table)[1] != axes.h:
            raise ValueError(
                f"biases.t5(table) must be buckets h with h = {axes.h} query heads, got shape "
                f"{jnp.shape(self.table)}"
            )

    def values(self, tile: Tile) -> Array:
        return _heads_first(jnp.asarray(self.table)[self.bucket(tile.j - tile.i)])

    def bucket(self, difference: Array) -> Array:
        """The bucket of each ``j − i``, int32."""
        count = self.table.shape[0] // (2 if self.bidirectional else 1)
        distance = jnp.abs(difference) if self.bidirectional else jnp.maximum(-difference, 0)
        bucket = jnp.asarray(_buckets(count, self.max_distance))[
            jnp.minimum(distance, self.max_distance)
        ]
        return bucket + jnp.where(difference > 0, count, 0) if self.bidirectional else bucket


def _buckets(count: int, max_distance: int) -> np.ndarray:
    """The bucket of each distance 0 … max_distance.

    A table made in float64, where the logarithm in float32 may land on either side of an integer.
    """
    exact = count // 2
    distance = np.arange(max_distance + 1)
    growth = np.log(np.maximum(distance, exact) / exact) / np.log(max_distance / exact)
    shared = exact + np.floor(growth * (count - exact) + 1e-9)
    return np.where(distance < exact, distance, np.minimum(shared, count - 1)).astype(np.int32)


class window_offsets(_Positional):
    """A learned number for each offset between cells of a window; made by :func:`relative_2d`.

    Args:
      table: `(2·height−1)(2·width−1) h`.
      height, width: of the window, in cells.

    Raises:
      ValueError: the table does not fit the window.
    """

    table: Array = leaf()
    height: int
    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        offsets = (2 * self.height - 1) * (2 * self.width - 1)
        shape = jnp.shape(self.table)
        if len(shape) != 2 or shape[0] != offsets:
            raise ValueError(
                f"biases.relative_2d(table) must be (2a−1)(2b−1) h = ({offsets}, h) for a window of "
                f"{self.height} × {self.width}, got shape {shape}"
            )

    def check(self, axes: Axes) -> None:
        if jnp.shape(self.table)[1] != axes.h:
            raise ValueError(
                f"biases.relative_2d(table) must be (2a−1)(2b−1) h with h = {axes.h} query heads, got "
                f"shape {jnp.shape(self.table)}"
            )

    def values(self, tile: Tile) -> Array:
        a, b = self.height, self.width
        i, j = tile.i % (a * b), tile.j % (a * b)
        rows, columns = i // b - j // b, i % b - j % b
        return _heads_first(jnp.asarray(self.table)[(rows + a - 1) * (2 * b - 1) + columns + b - 1])

    def __repr__(self) -> str:
        return f"relative_2d({show(self.table)}, window=({self.height}, {self.width}))"


def relative_2d(table: Array, window: tuple[int, int]) -> window_offsets:
    r"""A learned number for each offset between two cells of a window of an image.

    .. math:: b_{ij} = T[(y_i - y_j + a - 1)(2b - 1) + (x_i - x_j + b - 1), h]

    Position p is the cell in row :math:`y = \lfloor p / b \rfloor` and column :math:`x = p \bmod b`.
    Several windows in one sequence, under ``masks.same_block(a * b)``, are counted each from its start.

    Args:
      table: `(2a−1)(2b−1) h`, a leaf.
      window: (a, b), its height and width in cells.

    Shapes:
      values: `h t s`, or `*b h t s` where positions differ between batch rows.

    Raises:
      ValueError: the table does not fit the window.

    Reference: Liu et al. (2021, Swin), equation 4.

    >>> from attn_jax.functional.tiles import whole
    >>> relative_2d(jnp.arange(9.0)[:, None], (2, 2)).values(whole(4, 4))
    Array([[[4., 3., 1., 0.],
            [5., 4., 2., 1.],
            [7., 6., 4., 3.],
            [8., 7., 5., 4.]]], dtype=float32)
    """
    height, width = (int(n) for n in window)  # known while tracing
    return window_offsets(table, height, width)


def _heads_first(x: Array) -> Array:
    """`t s h` to `h t s`, and `*b 1 t s h` to `*b h t s`."""
    return jnp.moveaxis(x, -1, 0) if x.ndim == 3 else jnp.moveaxis(x[..., 0, :, :, :], -1, -3)
