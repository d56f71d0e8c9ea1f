"""What a bias is, and the sum of two."""

from __future__ import annotations

from attn_jax.functional.mask import Axes
from attn_jax.functional.tiles import Tile
from attn_jax.functional.value import Array, Value


class Bias(Value):
    """Numbers added to the scores, :math:`s_{ij} + b_{ij}`; a bias evaluates itself on a tile.

    Shapes:
      values: broadcast to `*b h t s`.

    >>> from attn_jax.functional.tiles import whole
    >>> class nearness(Bias):
    ...     reads_positions = True
    ...     def values(self, tile):
    ...         return -abs(tile.i - tile.j)
    >>> nearness().values(whole(1, 3))
    Array([[ 0, -1, -2]], dtype=int32)
    """

    @property
    def reads_positions(self) -> bool:
        """Whether the bias depends on positions."""
        return False

    def check(self, axes: Axes) -> None:
        """Raises ValueError, naming the axes, where the bias does not fit the problem."""

    def values(self, tile: Tile) -> Array:
        """The numbers on a tile; they broadcast to `*b h t s`."""
        raise NotImplementedError

    def __add__(self, other: Bias) -> Bias:
        if not isinstance(other, Bias):
            raise TypeError(
                f"biases add to biases, got {type(other).__name__}: use biases.dense(x)"
            )
        return total(self, other)


class total(Bias):
    """``a + b``: the sum of the values of two biases."""

    a: Bias
    b: Bias

    @property
    def reads_positions(self) -> bool:
        return self.a.reads_positions or self.b.reads_positions

    def check(self, axes: Axes) -> None:
        self.a.check(axes)
        self.b.check(axes)

    def values(self, tile: Tile) -> Array:
        return self.a.values(tile) + self.b.values(tile)

    def __repr__(self) -> str:
        return f"{self.a!r} + {self.b!r}"
