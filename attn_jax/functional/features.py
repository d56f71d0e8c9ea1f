"""Feature maps: functions of one query or key whose inner products are kernels."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from attn_jax.functional.value import Array, Value, leaf

__all__ = ["elu_plus_one", "favor"]


class elu_plus_one(Value):
    r"""Each coordinate made positive, :math:`\varphi(x) = \mathrm{elu}(x) + 1`.

    That is :math:`x + 1` where x > 0 and :math:`e^x` elsewhere.

    Shapes:
      x: `… d`.  returns: the same, positive.

    Reference: Katharopoulos et al. (2020), equation 7.

    >>> elu_plus_one()(jnp.array([0.0, 2.0]))
    Array([1., 3.], dtype=float32)
    """

    def __call__(self, x: Array) -> Array:
        # The sum elu(x) + 1 would round to 0 for x below −17, and features must stay positive.
        return jnp.where(x > 0, x + 1, jnp.exp(jnp.where(x > 0, 0, x)))


class positive_features(Value):
    r"""Positive features of the softmax kernel, for given directions ω; made by :func:`favor`.

    .. math:: \varphi_n(x) = \frac{1}{\sqrt{f}} \exp\left(\omega_n \cdot x' - \|x'\|^2 / 2\right),
              \quad x' = x / d^{1/4}

    Args:
      directions: ω, `f d`.

    Shapes:
      x: `… d`.  returns: `… f`, positive.

    Raises:
      ValueError: x is of another depth than the directions.

    Reference: Choromanski et al. (2021), lemma 1.

    >>> positive_features(jnp.zeros((4, 2)))(jnp.zeros(2))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """

    directions: Array = leaf()

    def __call__(self, x: Array) -> Array:
        """Features `… f` of keys `… d`; each of one key alone, at most exp(‖ω‖²/2)/√f."""
        return jnp.exp(self._log(x))

    def of_queries(self, x: Array) -> Array:
        """Features of queries, each query's divided by its largest, so that none overflows.

        ``normalizers.l1`` divides such a factor out again, exactly.
        """
        log = self._log(x)
        # Looked up, not reduced: compiled, a score may be computed twice with other roundings, and
        # then the derivative of a maximum finds no score equal to it.
        highest = jnp.take_along_axis(log, log.argmax(-1, keepdims=True), -1)
        return jnp.exp(log - highest)

    def _log(self, x: Array) -> Array:
        features, depth = self.directions.shape
        if x.shape[-1] != depth:
            raise ValueError(
                f"features.favor was made for queries and keys of depth {depth}, got {x.shape[-1]}"
            )
        x = x * depth**-0.25
        along = jnp.einsum("...d,fd->...f", x, self.directions)
        return along - 0.5 * jnp.square(x).sum(-1, keepdims=True) - 0.5 * jnp.log(features)


def favor(rng: Array, depth: int, features: int, orthogonal: bool = True) -> positive_features:
    r"""FAVOR+: random positive features whose inner products estimate :math:`e^{q \cdot k / \sqrt{d}}`.

    The estimate has no bias, and orthogonal directions give it less variance. With ``scores.kernel``
    and ``normalizers.l1`` it estimates a softmax over scaled dot products in time linear in length.
    The features of a key depend on that key alone, so nothing leaks from later keys to earlier ones.
    Those of a key with :math:`\|k\|^2 \gg 170 \sqrt{d}` round to 0 in float32.

    Args:
      rng: a typed key; the same key gives the same directions.
      depth: d, of queries and keys.
      features: f; the error shrinks as 1/√f.
      orthogonal: directions in blocks of d orthogonal ones, each as long as a Gaussian vector.

    Returns:
      A function of `… d` that gives `… f`, positive; its directions `f d` are a leaf.

    Raises:
      TypeError: `rng` is not a typed key.
      ValueError: `depth` or `features` is less than 1.

    Reference: Choromanski et al. (2021), lemma 1 and section 2.4.

    >>> phi, x = favor(jax.random.key(0), 4, 4096), 0.5 * jnp.ones(4)
    >>> bool(abs(phi(x) @ phi(x) / jnp.exp(0.5) - 1) < 0.05)
    True
    """
    if not jax.dtypes.issubdtype(jnp.result_type(rng), jax.dtypes.prng_key):
        raise TypeError(
            f"favor(rng) must be a typed key, jax.random.key(seed); got {jnp.result_type(rng)}"
        )
    if depth < 1 or features < 1:
        raise ValueError(
            f"favor needs a depth and features of at least 1, got {depth} and {features}"
        )
    of_blocks, of_lengths = jax.random.split(rng)
    gaussian = jax.random.normal(of_lengths, (features, depth))
    if not orthogonal:
        return positive_features(gaussian)
    blocks = jax.random.normal(of_blocks, (-(-features // depth), depth, depth))
    q, r = jnp.linalg.qr(blocks)
    # The signs of r's diagonal make the rotation uniform; a library's convention does not.
    q = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[:, None, :]
    directions = jnp.swapaxes(q, -1, -2).reshape(-1, depth)[:features]
    return positive_features(directions * jnp.linalg.norm(gaussian, axis=-1, keepdims=True))
