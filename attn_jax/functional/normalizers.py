"""Normalizers: how the scores of one query become weights over the keys it sees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.functional.normalizer import Normalizer
from attn_jax.functional.score import per_head
from attn_jax.functional.value import Array, leaf

__all__ = ["Normalizer", "softmax"]


class softmax(Normalizer):
    r"""Exponentials divided by their sum, :math:`w_j = e^{s_j} / (e^{a} + \sum_{j'} e^{s_{j'}})`.

    Without a sink the term in :math:`a` is absent.

    Args:
      sink: logit(s) of a key that has no value and takes weight away; a scalar or one per query head,
        `h`. A sink of 0 is "softmax off by one".

    Shapes:
      scores: `*b h t s`.  returns: the same, in [0, 1].

    References: Vaswani et al. (2017), equation 1; sinks: Xiao et al. (2023).

    >>> softmax().weights(jnp.array([[0.0, -jnp.inf], [-jnp.inf, -jnp.inf]]))
    Array([[1., 0.],
           [0., 0.]], dtype=float32)
    """

    sink: Array | None = leaf(default=None)

    def check(self, h: int) -> None:
        if self.sink is not None and jnp.shape(self.sink) not in ((), (h,)):
            raise ValueError(
                f"normalizers.softmax(sink) must be a scalar or one per query head, ({h},); got "
                f"shape {jnp.shape(self.sink)}"
            )

    def weights(self, scores: Array) -> Array:
        exponentials, total, _ = self._parts(scores)
        return exponentials / jnp.where(total > 0, total, 1)

    def lse(self, scores: Array) -> Array:
        r"""Natural log of the sum of exponentials, sink included: `*b h t`; −inf of an empty row."""
        _, total, highest = self._parts(scores)
        seen = total > 0
        log = jnp.log(jnp.where(seen, total, 1)) + highest
        return jnp.where(seen, log, -jnp.inf)[..., 0]

    def _parts(self, scores: Array) -> tuple[Array, Array, Array]:
        """Exponentials, their sum and the number subtracted before: `*b h t s`, `*b h t 1` twice."""
        empty = scores.shape[-1] == 0
        highest = scores.max(-1, keepdims=True, initial=-jnp.inf if empty else None)
        sink: Any = None if self.sink is None else per_head(jnp.asarray(self.sink, scores.dtype))
        if sink is not None:
            highest = jnp.maximum(highest, sink)
        highest = jax.lax.stop_gradient(jnp.where(highest == -jnp.inf, 0, highest))
        exponentials = jnp.exp(scores - highest)
        total = exponentials.sum(-1, keepdims=True)
        if sink is not None:
            total = total + jnp.exp(sink - highest)
        return exponentials, total, highest
