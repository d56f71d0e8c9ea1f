"""Scores that are inner products: of queries and keys, or of what a function makes of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.functional.score import Lift, Score, inner, per_query_head, score_dtype
from attn_jax.functional.value import Array, leaf


class dot(Score):
    r"""Inner product, :math:`q \cdot k`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, in the units of q times those of k.

    Reference: Luong, Pham and Manning (2015), section 3.1 (dot).

    >>> q, k = jnp.ones((2, 1, 4)), jnp.ones((3, 1, 4))
    >>> dot().pair(q, k)
    Array([[[4., 4., 4.],
            [4., 4., 4.]]], dtype=float32)
    """

    def pair(self, q: Array, k: Array) -> Array:
        return inner(q, k)

    def lift(self, q: Array, k: Array) -> Lift:
        return Lift(q, k)


class scaled_dot(Score):
    r"""Inner product times a scale, :math:`q \cdot k / \sqrt{d}` unless told otherwise.

    Dividing by √d keeps the variance of the scores at 1 when the entries of q and k have variance 1.

    Args:
      scale: what to multiply by instead of 1/√d; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, dimensionless.

    Reference: Vaswani et al. (2017), equation 1.

    >>> q, k = jnp.ones((2, 1, 4)), jnp.ones((3, 1, 4))
    >>> scaled_dot().pair(q, k)[0, 0]
    Array([2., 2., 2.], dtype=float32)
    """

    scale: Array | None = leaf(default=None)

    def pair(self, q: Array, k: Array) -> Array:
        if self.scale is None:
            return inner(q, k) * q.shape[-1] ** -0.5
        return inner(q, k) * per_query_head("scaled_dot(scale)", self.scale, q)

    def lift(self, q: Array, k: Array) -> Lift:
        if self.scale is None:
            return Lift(q, k, scale=q.shape[-1] ** -0.5)
        return Lift(_times(q, self.scale), k)


class bilinear(Score):
    r"""Inner product through a matrix, :math:`q^\top W k`; queries and keys may differ in depth.

    Args:
      w: `d c`, shared by the heads.

    Shapes:
      q: `*b t h d`.  k: `*b s g c`.  returns: `*b h t s`.

    Raises:
      ValueError: the depths of queries and keys are not those of w.

    Reference: Luong, Pham and Manning (2015), section 3.1 (general).

    >>> score = bilinear(jnp.ones((2, 3)))
    >>> score.pair(score.prepare_q(jnp.ones((1, 1, 2))), score.prepare_k(jnp.ones((1, 1, 3))))
    Array([[[6.]]], dtype=float32)
    """

    w: Array = leaf()

    def check(self, q_depth: int, k_depth: int) -> None:
        if jnp.shape(self.w) != (q_depth, k_depth):
            raise ValueError(
                f"scores.bilinear(w) must be d c = ({q_depth}, {k_depth}), the depths of q and k; "
                f"got shape {jnp.shape(self.w)}"
            )

    def prepare_q(self, q: Array) -> Array:
        return project(q, self.w)

    def pair(self, q: Array, k: Array) -> Array:
        return inner(q, k)

    def lift(self, q: Array, k: Array) -> Lift:
        return Lift(q, k)


class cosine(Score):
    r"""Cosine of the angle over a temperature, :math:`q \cdot k \,/\, (\|q\| \|k\| \tau)`.

    A zero vector is at right angles to everything: its scores are 0, and it gets no gradient.

    Args:
      temperature: τ, positive; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, dimensionless in [−1/τ, 1/τ].

    References: Graves, Wayne and Danihelka (2014), equation 6; with a learned temperature:
    Liu et al. (2022, Swin V2), equation 2.

    >>> score = cosine(0.5)
    >>> score.pair(score.prepare_q(jnp.ones((1, 1, 2))), score.prepare_k(jnp.eye(2)[:, None]))
    Array([[[1.414..., 1.414...]]], dtype=float32)
    """

    temperature: Array = leaf(default=1.0)

    def prepare_q(self, q: Array) -> Array:
        return unit(q)

    def prepare_k(self, k: Array) -> Array:
        return unit(k)

    def pair(self, q: Array, k: Array) -> Array:
        return inner(q, k) / per_query_head("cosine(temperature)", self.temperature, q)

    def lift(self, q: Array, k: Array) -> Lift:
        return Lift(_times(q, 1 / self.temperature), k)


class kernel(Score):
    r"""Inner product of features, :math:`\varphi(q) \cdot \varphi(k)`: with ``l1``, linear attention.

    Args:
      feature_map: ``φ(x: *b n heads d) -> *b n heads f``, of ``attn_jax.features`` or your own;
        non-negative features make non-negative weights. A feature map with a method ``of_queries``
        uses it for queries, which may then be off by a positive factor each: ``l1`` divides it out.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`; a kernel itself, not its logarithm.

    Raises:
      ValueError: the feature map changes other axes than the last.

    Reference: Katharopoulos et al. (2020), equation 4.

    >>> from attn_jax.functional.features import elu_plus_one
    >>> score, x = kernel(elu_plus_one()), jnp.zeros((1, 1, 3))
    >>> score.pair(score.prepare_q(x), score.prepare_k(x))
    Array([[[3.]]], dtype=float32)
    """

    feature_map: Callable[[Array], Array]

    def prepare_q(self, q: Array) -> Array:
        return self._features(getattr(self.feature_map, "of_queries", self.feature_map), q)

    def prepare_k(self, k: Array) -> Array:
        return self._features(self.feature_map, k)

    def _features(self, feature_map: Callable[[Array], Array], x: Array) -> Array:
        features = feature_map(x.astype(score_dtype(x)))
        if features.shape[:-1] != x.shape[:-1]:
            raise ValueError(
                f"scores.kernel: the feature map must keep all axes but the last, {x.shape[:-1]}; "
                f"it made {features.shape} of {x.shape}"
            )
        return features

    def pair(self, q: Array, k: Array) -> Array:
        return inner(q, k)

    def lift(self, q: Array, k: Array) -> Lift:
        return Lift(q, k)


def project(x: Array, w: Array) -> Array:
    """x @ w, `*b n heads d` times `d c`, in the dtype of scores."""
    return jnp.einsum("...d,dc->...c", x, w, preferred_element_type=score_dtype(x, w))


def unit(x: Array) -> Array:
    """Vectors `… d` divided by their lengths, in the dtype of scores; zero vectors stay zero."""
    x = x.astype(score_dtype(x))
    # Divided by the largest coordinate first, so that no square over- or underflows; the direction
    # does not depend on it, so neither does the gradient.
    largest = jax.lax.stop_gradient(jnp.abs(x).max(-1, keepdims=True, initial=0))
    some = largest > 0
    x = x / jnp.where(some, largest, 1)
    square = jnp.square(x).sum(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.where(some, square, 1))


def _times(q: Array, scale: Any) -> Array:
    """Queries `*b t h d` times a scalar or one number per head, in the dtype of scores."""
    scale = jnp.asarray(scale, score_dtype(q))
    return q * (scale[:, None] if scale.ndim == 1 else scale)
