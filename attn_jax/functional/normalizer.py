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
