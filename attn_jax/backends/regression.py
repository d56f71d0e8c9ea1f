"""Kernel regression as attention, for data without head axes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from attn_jax.backends.backend import Backend
from attn_jax.backends.dispatch import attend
from attn_jax.functional.rule import Rule
from attn_jax.functional.tiles import Positions
from attn_jax.functional.value import Array


def regress(
    x: Array,
    keys: Array,
    values: Array,
    *,
    rule: Rule,
    positions: Positions | str | None = None,
    backend: Backend | str = "auto",
) -> Array:
    r"""Each point's weighted mean of what was observed, :math:`\hat y(x) = \sum_j w(x, x_j)\, y_j`.

    With the logarithm of a kernel for a score and a softmax this is the Nadaraya-Watson estimator,
    :math:`\sum_j K(x, x_j) y_j / \sum_j K(x, x_j)`; under ``~masks.diagonal()`` each of the observed
    points is predicted from the others. Where no observation is in reach the estimate is 0.

    Args:
      x: where to predict, scalars `t` or vectors `t d`.
      keys: where it was observed, `s` or `s d`, as x.
      values: what was observed, `s` or `s e`.
      rule: score, mask and normalizer; per-head parameters have one head.
      positions, backend: as in :func:`attend`.

    Returns:
      `t` or `t e`, as the values, in their dtype and units.

    Raises:
      ValueError, TypeError: shapes or dtypes that do not fit; as :func:`attend`.

    References: Nadaraya (1964); Watson (1964).

    >>> from attn_jax import masks, scores
    >>> x = jnp.array([0.0, 1.0, 2.0])
    >>> rule = Rule(score=scores.boxcar(1.5), mask=~masks.diagonal())
    >>> regress(x, x, jnp.array([1.0, 5.0, 3.0]), rule=rule)
    Array([5., 2., 5.], dtype=float32)
    """
    x, keys, values = (jnp.asarray(a) for a in (x, keys, values))
    for name, array, letters in (("x", x, "t d"), ("keys", keys, "s d"), ("values", values, "s e")):
        if array.ndim not in (1, 2):
            raise ValueError(
                f"regress takes {name} as scalars, {letters[0]}, or vectors, {letters}; got shape "
                f"{array.shape}"
            )
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(f"regress takes {name} in floating point, got {array.dtype}")
    if x.ndim != keys.ndim:
        raise ValueError(
            f"x and keys must both be scalars (t, s) or both vectors (t d, s d): x has shape {x.shape}, "
            f"keys have {keys.shape}"
        )
    y = attend(
        _with_heads(x),
        _with_heads(keys),
        _with_heads(values),
        rule=rule,
        positions=positions,
        backend=backend,
    )
    return y.reshape(x.shape[0], *values.shape[1:])


def _with_heads(x: Any) -> Array:
    """`n` or `n d` as `n 1 d`."""
    return x.reshape(x.shape[0], 1, -1)
