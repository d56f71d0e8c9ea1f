"""What a normalizer is: how the scores of one query become weights over the keys it sees."""

from __future__ import annotations

from attn_jax.functional.value import Array, Value


class Normalizer(Value):
    r"""Turns the scores of a query into weights, :math:`w_i = f(s_i)`; −inf stands for a hidden key.

    A subclass needs only `weights`; to be evaluated a tile at a time, the methods below it too.

    Shapes:
      scores: `*b h t s`.  weights: the same.

    >>> import jax.numpy as jnp
    >>> class relu(Normalizer):
    ...     def weights(self, scores):
    ...         return jnp.maximum(scores, 0)
    >>> relu().weights(jnp.array([[1.0, -1.0, -jnp.inf]]))
    Array([[1., 0., 0.]], dtype=float32)
    """

    def check(self, h: int) -> None:
        """Raises ValueError where the normalizer does not fit `h` query heads."""

    def weights(self, scores: Array) -> Array:
        """Weights of the same shape, `*b h t s`; a row of −inf becomes a row of zeros."""
        raise NotImplementedError

    def cannot_stream(self) -> str | None:
        """Why the weights cannot be found from parts of a row; None where they can."""
        return f"{self!r} needs all scores of a query at once; use the dense backend"

    def mass(self, scores: Array) -> Array:
        """For one that streams: the weights of any part of a row, up to a factor for the row."""
        raise NotImplementedError

    def normalise(self, y: Array, total: Array) -> Array:
        """For one that streams: Σ w v from the sums over a row of mass times value and of mass."""
        raise NotImplementedError
