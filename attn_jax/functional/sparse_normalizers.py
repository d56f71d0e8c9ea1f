"""Normalizers that give weights of exactly zero to keys whose scores fall below a threshold.

The threshold of a row depends on all of its scores at once, so neither of them can be streamed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from attn_jax.functional.normalizer import Normalizer
from attn_jax.functional.value import Array


class sparsemax(Normalizer):
    r"""The nearest point of the simplex, :math:`w = \arg\min_{p \in \Delta} \|p - s\|^2`.

    That is :math:`w_j = \max(s_j - \tau, 0)` with the τ for which the weights sum to 1.

    Shapes:
      scores: `*b h t s`.  returns: the same, in [0, 1].

    Reference: Martins and Astudillo (2016), equation 2 and algorithm 1.

    >>> sparsemax().weights(jnp.array([[1.0, 0.5, -1.0], [0.0, 3.0, -jnp.inf]]))
    Array([[0.75, 0.25, 0.  ],
           [0.  , 1.  , 0.  ]], dtype=float32)
    """

    def weights(self, scores: Array) -> Array:
        x = _below_highest(scores)
        ordered, n = _descending(x)
        inside = 1 + n * ordered > jnp.cumsum(ordered, -1)
        support = x > (_sum(ordered, inside) - 1) / _count(inside)
        # Given its support, the threshold is a smooth function of the scores.
        threshold = (_sum(x, support) - 1) / _count(support)
        return jnp.where(x > threshold, x - threshold, 0)


class entmax15(Normalizer):
    r"""Between softmax and sparsemax: :math:`w_j = \max(s_j / 2 - \tau, 0)^2`, with τ so that Σ w = 1.

    Shapes:
      scores: `*b h t s`.  returns: the same, in [0, 1].

    Reference: Peters, Niculae and Martins (2019), section 3 and algorithm 2.

    >>> entmax15().weights(jnp.array([[0.0, 0.0], [0.0, 2.0]])).round(4)
    Array([[0.5, 0.5],
           [0. , 1. ]], dtype=float32)
    """

    def weights(self, scores: Array) -> Array:
        x = _below_highest(scores) / 2
        ordered, n = _descending(x)
        mean = jnp.cumsum(ordered, -1) / n
        spread = jnp.cumsum(jnp.square(ordered), -1) - n * jnp.square(mean)
        inside = mean - jnp.sqrt(jnp.maximum(1 - spread, 0) / n) <= ordered
        threshold = jax.lax.stop_gradient(_threshold15(ordered, inside & (ordered > -1)))
        # Given its support, the threshold is a smooth function of the scores.
        threshold = _threshold15(x, x > threshold)
        return jnp.square(jnp.where(x > threshold, x - threshold, 0))


def _threshold15(x: Array, support: Array) -> Array:
    """τ for which the squares of x − τ sum to 1 over the support."""
    count = _count(support)
    mean = _sum(x, support) / count
    spread = _sum(jnp.square(jnp.where(support, x, mean) - mean), support)
    return mean - jnp.sqrt((1 - spread) / count)


def _below_highest(scores: Array) -> Array:
    """Scores less the highest of their row, at most 0: the weights do not depend on it."""
    highest = scores.max(-1, keepdims=True, initial=-jnp.inf)
    return scores - jax.lax.stop_gradient(jnp.where(highest == -jnp.inf, 0, highest))


def _descending(x: Array) -> tuple[Array, Array]:
    """Each row from its largest down, no lower than −1, where no weight can be; and 1, 2, …, s."""
    ordered = -jnp.sort(-jax.lax.stop_gradient(jnp.maximum(x, -1)), axis=-1)
    return ordered, jnp.arange(1, x.shape[-1] + 1, dtype=x.dtype)


def _sum(x: Array, where: Array) -> Array:
    return jnp.where(where, x, 0).sum(-1, keepdims=True)


def _count(where: Array) -> Array:
    """How many there are, `… 1`, as a number to divide by: at least 1."""
    return jnp.maximum(where.sum(-1, keepdims=True), 1)
