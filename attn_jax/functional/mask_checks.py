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
        is_float = jnp.issubdtype(array.dtype, jnp.floating)
        hint = (
            "An additive mask is a bias: use biases.dense(array)"
            if is_float
            else "Compare to make booleans, as in array != 0; indices are not a mask"
        )
        raise TypeError(f"masks.{name} must be boolean, True = may look; got {array.dtype}. {hint}")


def integers(name: str, value: Any) -> Any:
    """An integer (Python's, so that it is known while tracing) or an array of integers.

    Raises:
      TypeError: anything else.
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    array = as_array(value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        given = "None" if value is None else array.dtype
        raise TypeError(f"masks.{name} must be integers, got {given}")
    return array


def integer(name: str, value: Any) -> Any:
    """One integer, possibly traced, that may be negated.

    Raises:
      TypeError, ValueError: anything else; several integers.
    """
    value = integers(name, value)
    if np.ndim(value):
        raise ValueError(f"masks.{name} must be one integer, got an array of shape {value.shape}")
    return value if isinstance(value, int) else value.astype(jnp.int32)


def positive(name: str, n: Any) -> int:
    """A Python integer of at least 1; ValueError for anything else."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"masks.{name} must be an integer of at least 1, got {n!r}")
    return int(n)


def expect_axis(name: str, layout: str, array: Any) -> None:
    """Raises ValueError for a scalar where an array with axes belongs."""
    if array.ndim == 0:
        raise ValueError(f"masks.{name} must be {layout}, got a scalar")


def expect_length(name: str, axis: str, given: int, needed: int) -> None:
    """Raises ValueError where an array has another length than the problem."""
    if given != needed:
        raise ValueError(f"masks.{name} has {given} entries along {axis}, the problem has {needed}")


def broadcasts(given: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of one shape broadcasts to exactly another."""
    fits = all(n in (1, m) for n, m in zip(given[::-1], target[::-1]))
    return fits and len(given) <= len(target)


def expect_batch(name: str, axes: str, given: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Raises ValueError where batch axes do not broadcast to the problem's."""
    if not broadcasts(given, batch):
        raise ValueError(f"masks.{name} is {axes}: its batch axes {given} do not fit {batch}")
