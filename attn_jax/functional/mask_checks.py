"""What may be given to a mask: dtypes and shapes, and what is said when they do not fit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.functional.value import raw


def as_array(x: Any) -> Any:
    """Arrays stay what they are (numpy is known while tracing); lists and numbers become numpy."""
    x = raw(x)
    return x if isinstance(x, np.ndarray | jax.Array) else np.asarray(x)


def expect_booleans(name: str, array: Any) -> None:
    """Raises TypeError for anything but booleans."""
    if array.dtype != bool:
        raise TypeError(
            f"masks.{name} must be boolean, True = may look; got {array.dtype}. "
            "An additive mask is a bias: use biases.dense(array)"
        )


def expect_integers(name: str, value: Any) -> None:
    """Raises TypeError for anything but an integer, integers or None."""
    if value is None or (isinstance(value, int | np.integer) and not isinstance(value, bool)):
        return
    dtype = as_array(value).dtype
    if not jnp.issubdtype(dtype, jnp.integer):
        raise TypeError(f"masks.{name} must be integers, got {dtype}")


def expect_positive(name: str, n: Any) -> None:
    """Raises ValueError for anything but an integer of at least 1."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError(f"masks.{name} must be an integer of at least 1, got {n!r}")


def expect_length(name: str, axis: str, given: int, needed: int) -> None:
    """Raises ValueError where an array has another length than the problem."""
    if given != needed:
        raise ValueError(f"masks.{name} has {given} entries along {axis}, the problem has {needed}")


def expect_batch(name: str, axes: str, given: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Raises ValueError where batch axes do not broadcast to the problem's."""
    fits = len(given) <= len(batch) and all(n in (1, m) for n, m in zip(given[::-1], batch[::-1]))
    if not fits:
        raise ValueError(f"masks.{name} is {axes}: its batch axes {given} do not fit {batch}")
