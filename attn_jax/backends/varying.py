"""Inside ``jax.shard_map``: which arrays count as different on different devices.

The gradient of an array that is the same on all devices is a sum over them. Left to itself JAX takes
that sum where the array is used. Within a branch that some devices take and others do not, as where
tiles are skipped at run time, some would wait for others that never come.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def alike(tree: Any) -> Any:
    """All JAX arrays made to differ on the devices on which any of them does.

    The gradient of one that was the same on all is then summed once, where this is called. Outside of
    ``jax.shard_map``, and where it does not check (``check_vma=False``), the tree as it is.
    """
    leaves, structure = jax.tree.flatten(tree)
    every: frozenset[Any] = frozenset().union(*map(_varies_over, leaves))
    if not every:
        return tree

    def spread(x: Any) -> Any:
        missing = isinstance(x, jax.Array) and tuple(sorted(every - _varies_over(x)))
        return jax.lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.unflatten(structure, [spread(x) for x in leaves])


def expect_alike(closed_over: list[Any], like: Any) -> None:
    """Raises ValueError for a smooth array that differs on fewer devices than `like` does."""
    for x in closed_over:
        smooth = isinstance(x, jax.core.Tracer) and jnp.issubdtype(x.dtype, jnp.floating)
        if smooth and _varies_over(like) - _varies_over(x):
            raise ValueError(
                f"inside jax.shard_map a function of the rule closes over {x.aval.str_short()}, the "
                "same on all devices: make it a leaf of the rule, or call jax.shard_map with "
                "check_vma=False"
            )


def _varies_over(x: Any) -> frozenset[Any]:
    return jax.typeof(x).manual_axis_type.varying
