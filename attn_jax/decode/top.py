"""The largest of many numbers, such as the most probable of a vocabulary."""

import jax.numpy as jnp
from jax import Array, lax

GROUP = 32


def top_k(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest of the last axis and where they stand, as of ``jax.lax.top_k``.

    They are found among the k groups of neighbours whose largest are the largest, which spares
    a search through all: one that ranks among the first k, equals ranked by place, has fewer than
    k groups before its own.

    Args:
      x: `*b n`, numbers, none of them NaN.
      k: at most n.

    Returns:
      `*b k` both, in descending order; of equals, the first ones first.

    >>> [x.tolist() for x in top_k(jnp.arange(1000) % 7, 3)]
    [[6, 6, 6], [6, 13, 20]]
    """
    n = x.shape[-1]
    if n < 4 * k * GROUP:
        values, places = lax.top_k(x, k)
        return values, places
    least = -jnp.inf if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo(x.dtype).min
    padding = [(0, 0)] * (x.ndim - 1) + [(0, -n % GROUP)]
    groups = jnp.pad(x, padding, constant_values=least).reshape(*x.shape[:-1], -1, GROUP)
    chosen = jnp.sort(lax.top_k(groups.max(axis=-1), k)[1], axis=-1)
    within = jnp.take_along_axis(groups, chosen[..., None], axis=-2)
    values, places = lax.top_k(within.reshape(*x.shape[:-1], k * GROUP), k)
    group = jnp.take_along_axis(chosen, places // GROUP, axis=-1)
    return values, group * GROUP + places % GROUP
