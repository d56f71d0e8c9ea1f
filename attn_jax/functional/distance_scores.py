"""Scores of distance, and the logarithms of kernels: a softmax over them is kernel regression.

Distances are sums of squared differences, :math:`\\sum_c (q_c - k_c)^2`, coordinate by coordinate, and
not :math:`\\|q\\|^2 + \\|k\\|^2 - 2 q \\cdot k`: that form has an error of :math:`\\epsilon\\|q\\|^2`
whatever the distance (0.1 in float32 for data around 1000), which a narrow kernel divides by a small
number, and centring helps only data of one cluster. The sum of differences has a relative error of a few
ε wherever the data lie. The quick form is there as a ``lift``, on centred data.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.functional.score import Lift, Score, per_query_head, score_dtype, sum_over_depth
from attn_jax.functional.value import Array, leaf


def squared_distance(q: Array, k: Array) -> Array:
    r""":math:`\|q - k\|^2` of every query and key, `*b h t s`, float32 or float64.

    >>> squared_distance(jnp.zeros((1, 1, 2)), jnp.array([[[3.0, 4.0]]]))
    Array([[[25.]]], dtype=float32)
    """
    return sum_over_depth(lambda a, b: jnp.square(a - b), q, k)


def distance(q: Array, k: Array) -> Array:
    r""":math:`\|q - k\|`, `*b h t s`; its gradient where q = k, a cusp, is 0."""
    square = squared_distance(q, k)
    apart = square > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1)), 0)


class LogKernel(Score):
    """The logarithm of a kernel that is 1 where the query equals the key, and at most 1 elsewhere."""

    @property
    def is_logarithm(self) -> bool:
        return True


class l2(LogKernel):
    r"""Minus the squared Euclidean distance, :math:`-\alpha \|q - k\|^2`.

    Args:
      scale: α, in one over squared units of the data; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, dimensionless.

    Reference: Kim, Papamakarios and Mnih (2021), section 3.2.

    >>> l2(0.5).pair(jnp.zeros((1, 1, 2)), jnp.ones((1, 1, 2)))
    Array([[[-1.]]], dtype=float32)
    """

    scale: Array = leaf(default=1.0)

    def pair(self, q: Array, k: Array) -> Array:
        return -per_query_head("l2(scale)", self.scale, q) * squared_distance(q, k)

    def lift(self, q: Array, k: Array) -> Lift:
        return _lift(q, k, self.scale)


class gaussian(LogKernel):
    r"""Log of a Gaussian kernel, :math:`-\|q - k\|^2 / 2\sigma^2`.

    A softmax over the keys makes it Nadaraya-Watson regression.

    Args:
      bandwidth: σ, positive, in the units of the data; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, dimensionless.

    References: Nadaraya (1964); Watson (1964).

    >>> gaussian(2.0).pair(jnp.zeros((1, 1, 1)), jnp.array([[[0.0]], [[4.0]]]))
    Array([[[-0., -2.]]], dtype=float32)
    """

    bandwidth: Array = leaf(default=1.0)

    def pair(self, q: Array, k: Array) -> Array:
        width = per_query_head("gaussian(bandwidth)", self.bandwidth, q)
        return -0.5 * squared_distance(q, k) / jnp.square(width)

    def lift(self, q: Array, k: Array) -> Lift:
        return _lift(q, k, 0.5 / jnp.square(self.bandwidth))


class laplace(LogKernel):
    r"""Log of a Laplace kernel, :math:`-\|q - k\| / \beta`.

    Its gradient where q = k, a cusp, is 0.

    Args:
      scale: β, positive, in the units of the data; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, dimensionless.

    Reference: Rasmussen and Williams (2006), section 4.2.1 (the exponential kernel).

    >>> laplace(2.0).pair(jnp.zeros((1, 1, 2)), jnp.array([[[3.0, 4.0]]]))
    Array([[[-2.5]]], dtype=float32)
    """

    scale: Array = leaf(default=1.0)

    def pair(self, q: Array, k: Array) -> Array:
        return -distance(q, k) / per_query_head("laplace(scale)", self.scale, q)


class boxcar(LogKernel):
    r"""Log of the uniform kernel: 0 where :math:`\|q - k\| \le r`, −∞ elsewhere.

    A step has no slope: its gradients are 0 in q, k and r.

    Args:
      radius: r, positive, in the units of the data; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`.

    Reference: Silverman (1986), table 3.1.

    >>> boxcar(1.0).pair(jnp.zeros((1, 1, 1)), jnp.array([[[1.0]], [[1.1]]]))
    Array([[[  0., -inf]]], dtype=float32)
    """

    radius: Array = leaf(default=1.0)

    def pair(self, q: Array, k: Array) -> Array:
        u = distance(q, k) / per_query_head("boxcar(radius)", self.radius, q)
        return jnp.where(u <= 1, jnp.zeros_like(u), -jnp.inf)


class triangular(LogKernel):
    r"""Log of the triangular kernel: :math:`\log(1 - \|q - k\| / r)`, −∞ from r on.

    Its gradient where q = k, a cusp, is 0; outside its support it has none.

    Args:
      radius: r, positive, in the units of the data; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`.

    Reference: Silverman (1986), table 3.1.

    >>> triangular(2.0).pair(jnp.zeros((1, 1, 1)), jnp.array([[[1.0]], [[2.0]]]))
    Array([[[-0.693..., -inf]]], dtype=float32)
    """

    radius: Array = leaf(default=1.0)

    def pair(self, q: Array, k: Array) -> Array:
        return _log_of_rest(distance(q, k) / per_query_head("triangular(radius)", self.radius, q))


class epanechnikov(LogKernel):
    r"""Log of Epanechnikov's kernel: :math:`\log(1 - \|q - k\|^2 / r^2)`, −∞ from r on.

    Outside its support it has no gradient.

    Args:
      radius: r, positive, in the units of the data; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`.

    References: Epanechnikov (1969); Silverman (1986), table 3.1.

    >>> epanechnikov(2.0).pair(jnp.zeros((1, 1, 1)), jnp.array([[[1.0]], [[2.0]]]))
    Array([[[-0.287..., -inf]]], dtype=float32)
    """

    radius: Array = leaf(default=1.0)

    def pair(self, q: Array, k: Array) -> Array:
        radius = per_query_head("epanechnikov(radius)", self.radius, q)
        return _log_of_rest(squared_distance(q, k) / jnp.square(radius))


def _log_of_rest(u: Array) -> Array:
    """log(1 − u) where u < 1, −inf elsewhere; both with finite gradients."""
    inside = u < 1
    return jnp.where(inside, jnp.log1p(-jnp.where(inside, u, 0)), -jnp.inf)


def _lift(q: Array, k: Array, scale: Any) -> Lift:
    """−a‖q − k‖² as an inner product: (2a q, −a) · (k, ‖k‖²) − a‖q‖², about the mean of the keys."""
    h, (s, g) = q.shape[-2], k.shape[-3:-1]
    dtype = score_dtype(q, k)
    q, k = q.astype(dtype), k.astype(dtype)
    # Distances do not depend on the origin, so its gradient is none: only rounding does.
    centre = jax.lax.stop_gradient(k.sum(-3, keepdims=True) / max(s, 1))
    q, k = q - jnp.repeat(centre, h // g, axis=-2), k - centre
    a = jnp.broadcast_to(jnp.asarray(scale, dtype), (h,))[:, None]
    lifted_q = jnp.concatenate([2 * a * q, jnp.broadcast_to(-a, (*q.shape[:-1], 1))], axis=-1)
    lifted_k = jnp.concatenate([k, jnp.square(k).sum(-1, keepdims=True)], axis=-1)
    offset = -(a * jnp.square(q)).sum(-1)
    return Lift(lifted_q, lifted_k, offset=jnp.swapaxes(offset, -1, -2))
