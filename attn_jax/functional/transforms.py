"""Transforms: what is done to a score after its bias and before its mask.

Any function ``(s, i, j) -> s`` of scores and the positions of their queries and keys is one.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from attn_jax.functional.value import Array, Value, leaf

__all__ = ["soft_cap"]


class soft_cap(Value):
    r"""Scores bent smoothly into (−c, c), :math:`c \tanh(s / c)`.

    Args:
      c: the largest magnitude a score can reach, positive, in the units of the scores; a scalar.

    Shapes:
      s: `*b h t s`.  returns: the same.

    Reference: Gemma Team (2024, Gemma 2), section 2.

    >>> soft_cap(2.0)(jnp.array([0.0, 100.0]), 0, 0)
    Array([0., 2.], dtype=float32)
    """

    c: Array = leaf()

    def __call__(self, s: Array, i: Any, j: Any) -> Array:
        return self.c * jnp.tanh(s / self.c)
