"""What a normalizer is: how the scores of one query become weights over the keys it sees."""

from __future__ import annotations

from attn_jax.functional.value import Array, Value


class Normalizer(Value):
    """Turns scores into weights. Scores of pairs that may not look arrive as −inf."""

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
