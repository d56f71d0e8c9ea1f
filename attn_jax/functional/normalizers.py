"""Normalizers: how the scores of one query become weights over the keys it sees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.functional.normalizer import Normalizer
from attn_jax.functional.score import per_head
from attn_jax.functional.sparse_normalizers import entmax15, sparsemax
from attn_jax.functional.value import Array, leaf

__all__ = ["Normalizer", "entmax15", "l1", "sigmoid", "softmax", "sparsemax"]


class softmax(Normalizer):
    r"""Exponentials divided by their sum, :math:`w_j = e^{s_j} / (e^{a} + \sum_{j'} e^{s_{j'}})`.

    Without a sink the term in :math:`a` is absent.

    Args:
      sink: logit(s) of a key that has no value and takes weight away; a scalar or one per query head,
        `h`. A sink of 0 is "softmax off by one".

    Shapes:
      scores: `*b h t s`.  returns: the same, in [0, 1].

    References: Vaswani et al. (2017), equation 1; a sink of 0: Xiao et al. (2024), section 3.3;
    one per head, learned: OpenAI (2025, gpt-oss).

    >>> softmax().weights(jnp.array([[0.0, -jnp.inf], [-jnp.inf, -jnp.inf]]))
    Array([[1., 0.],
           [0., 0.]], dtype=float32)
    """

    sink: Array | None = leaf(default=None)

    def check(self, h: int) -> None:
        _expect_per_head("softmax(sink)", self.sink, h)

    def weights(self, scores: Array) -> Array:
        exponentials, total, _ = self._parts(scores)
        return exponentials / jnp.where(total > 0, total, 1)

    def lse(self, scores: Array) -> Array:
        r"""Natural log of the sum of exponentials, sink included: `*b h t`; −inf of an empty row."""
        _, total, highest = self._parts(scores)
        seen = total > 0
        log = jnp.log(jnp.where(seen, total, 1)) + highest
        return jnp.where(seen, log, -jnp.inf)[..., 0]

    def cannot_stream(self) -> str | None:
        return None

    def with_sink(self, y: Array, lse: Array) -> tuple[Array, Array]:
        """Averages `*b t h e` and log-sum-exps `*b h t` of the keys alone, with the sink counted in."""
        if self.sink is None:
            return y, lse
        sink = jnp.broadcast_to(jnp.asarray(self.sink, lse.dtype), lse.shape[-2:-1])[:, None]
        highest = jax.lax.stop_gradient(jnp.maximum(lse, sink))
        highest = jnp.where(highest == -jnp.inf, 0, highest)
        keys = jnp.exp(lse - highest)
        total = keys + jnp.exp(sink - highest)
        seen = total > 0
        total = jnp.where(seen, total, 1)
        share = jnp.swapaxes(keys / total, -1, -2)[..., None]
        return y * share, jnp.where(seen, jnp.log(total) + highest, -jnp.inf)

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


class l1(Normalizer):
    r"""Non-negative scores divided by their sum, :math:`w_j = s_j / \sum_{j'} s_{j'}`.

    For scores that are a kernel itself (``scores.kernel``: linear attention; a pairwise function:
    kernel regression). The logarithm of a kernel, as ``scores.gaussian`` is, goes with ``softmax``; a
    rule that joins it with this is refused.
    A row whose scores are all 0 becomes a row of zeros, like one that sees nothing.

    Shapes:
      scores: `*b h t s`, non-negative.  returns: the same, in [0, 1].

    References: Nadaraya (1964); Katharopoulos et al. (2020), equation 3.

    >>> l1().weights(jnp.array([[1.0, 3.0, -jnp.inf], [0.0, 0.0, 0.0]]))
    Array([[0.25, 0.75, 0.  ],
           [0.  , 0.  , 0.  ]], dtype=float32)
    """

    def weights(self, scores: Array) -> Array:
        scores = jnp.where(scores == -jnp.inf, 0, scores)
        # Divided by the largest first, so that sums and squares neither over- nor underflow; the
        # weights do not depend on it, so neither does the gradient.
        largest = jax.lax.stop_gradient(jnp.abs(scores).max(-1, keepdims=True, initial=0))
        scores = scores / jnp.where(largest > 0, largest, 1)
        total = scores.sum(-1, keepdims=True)
        some = total != 0
        return jnp.where(some, scores / jnp.where(some, total, 1), 0)

    def cannot_stream(self) -> str | None:
        return None

    def mass(self, scores: Array) -> Array:
        return jnp.where(scores == -jnp.inf, 0, scores)

    def normalise(self, y: Array, total: Array) -> Array:
        some = total != 0
        return jnp.where(some, y / jnp.where(some, total, 1), 0)


class sigmoid(Normalizer):
    r"""Each score on its own, :math:`w_j = 1 / (1 + e^{-(s_j + b)})`; weights need not sum to 1.

    Args:
      bias: b, added to the scores; a scalar or one per query head, `h`; None adds nothing. Minus the
        log of the number of keys starts training near a softmax's total.

    Shapes:
      scores: `*b h t s`.  returns: the same, in [0, 1].

    Reference: Ramapuram et al. (2025), section 2.

    >>> sigmoid().weights(jnp.array([[0.0, -jnp.inf]]))
    Array([[0.5, 0. ]], dtype=float32)
    """

    bias: Array | None = leaf(default=None)

    def check(self, h: int) -> None:
        _expect_per_head("sigmoid(bias)", self.bias, h)

    def weights(self, scores: Array) -> Array:
        if self.bias is not None:
            scores = scores + per_head(jnp.asarray(self.bias, scores.dtype))
        return jax.nn.sigmoid(scores)

    def cannot_stream(self) -> str | None:
        return None

    def mass(self, scores: Array) -> Array:
        return self.weights(scores)

    def normalise(self, y: Array, total: Array) -> Array:
        return y


def _expect_per_head(name: str, x: Any, h: int) -> None:
    if x is not None and jnp.shape(x) not in ((), (h,)):
        raise ValueError(
            f"normalizers.{name} must be a scalar or one per query head, ({h},); got shape "
            f"{jnp.shape(x)}"
        )
