"""Learning rates as functions of the number of updates made so far, counted from 0.

In the formulas n is the update that is being made, from 1, and w the warm-up.
"""

import jax.numpy as jnp
import optax


def inverse_square_root(peak: float, warmup: int) -> optax.Schedule:
    r"""Linear warm-up to the peak, then decay with the inverse square root of the update.

    .. math:: \eta_n = \eta \min(n / w, \sqrt{w / n})

    Args:
      peak: η, the largest rate, reached at update w.
      warmup: w, in updates; at least 1.

    Raises:
      ValueError: the warm-up is out of range.

    Reference: Vaswani et al. (2017), equation 3, where the peak is :math:`(m w)^{-1/2}`.

    >>> rate = inverse_square_root(2e-3, 200)
    >>> [round(float(rate(n)), 6) for n in (0, 99, 199, 799)]
    [1e-05, 0.001, 0.002, 0.001]
    """
    _at_least_one(warmup=warmup)

    def rate(count):
        n = jnp.asarray(count, jnp.float32) + 1
        return peak * jnp.minimum(n / warmup, jnp.sqrt(warmup / n))

    return rate


def cosine(peak: float, warmup: int, steps: int, *, floor: float = 0.0) -> optax.Schedule:
    r"""Linear warm-up to the peak, then half a cosine down to the floor at the last update.

    .. math:: \eta_n = \eta n / w \text{ for } n < w, \text{ then }
              \eta_N + (\eta - \eta_N) \frac{1 + \cos \pi x}{2}, \quad x = \frac{n - w}{N - w}

    Args:
      peak: η, the largest rate.
      warmup: w, updates until the peak; 0 for none.
      steps: N, updates in all; afterwards the rate stays at the floor.
      floor: :math:`\eta_N`, the last rate.

    Raises:
      ValueError: `warmup` is negative, or not below `steps`.

    Reference: Loshchilov and Hutter (2017), equation 5, without restarts.

    >>> rate = cosine(1.0, 10, 110, floor=0.1)
    >>> [round(float(rate(n)), 3) for n in (0, 9, 59, 109)]
    [0.1, 1.0, 0.55, 0.1]
    """
    return _after_warmup(
        peak, warmup, steps, lambda x: floor + (peak - floor) * 0.5 * (1 + jnp.cos(jnp.pi * x))
    )


def linear(peak: float, warmup: int, steps: int, *, floor: float = 0.0) -> optax.Schedule:
    r"""Linear warm-up to the peak, then linear decay to the floor at the last update.

    .. math:: \eta_n = \eta n / w \text{ for } n < w, \text{ then }
              \eta + (\eta_N - \eta) x, \quad x = \frac{n - w}{N - w}

    Args:
      peak: η, the largest rate.
      warmup: w, updates until the peak; 0 for none.
      steps: N, updates in all; afterwards the rate stays at the floor.
      floor: :math:`\eta_N`, the last rate.

    Raises:
      ValueError: `warmup` is negative, or not below `steps`.

    >>> rate = linear(1.0, 10, 110)
    >>> [round(float(rate(n)), 3) for n in (0, 9, 59, 109)]
    [0.1, 1.0, 0.5, 0.0]
    """
    return _after_warmup(peak, warmup, steps, lambda x: peak + (floor - peak) * x)


def constant(peak: float, warmup: int = 0) -> optax.Schedule:
    r"""Linear warm-up to the peak, which then stays, :math:`\eta_n = \eta \min(n / w, 1)`.

    Args:
      peak: η, the rate.
      warmup: w, updates until the peak; 0 for none.

    >>> [round(float(constant(0.5, 2)(n)), 3) for n in (0, 1, 2)]
    [0.25, 0.5, 0.5]
    """

    def rate(count):
        n = jnp.asarray(count, jnp.float32) + 1
        return peak * jnp.minimum(n / max(warmup, 1), 1.0)

    return rate


def _after_warmup(peak, warmup, steps, decay) -> optax.Schedule:
    if warmup < 0 or steps <= warmup:
        raise ValueError(f"expected 0 <= warmup < steps, got warmup {warmup} and steps {steps}")

    def rate(count):
        n = jnp.asarray(count, jnp.float32) + 1
        done = jnp.clip((n - warmup) / (steps - warmup), 0, 1)
        return jnp.where(n < warmup, peak * n / max(warmup, 1), decay(done))

    return rate


def _at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"expected {name} of at least 1, got {number}")
