"""Layers one after the other: what goes through them, and what each is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.modules.watching import is_watched

Array = jax.Array


def through(
    layers: Sequence[nnx.Module],
    x: Array,
    call: Callable[[Any, Array, Any], Array],
    *,
    scanned: bool = False,
) -> Array:
    """What comes of x after all layers.

    Args:
      layers: any modules.
      x: given to the first.
      call: (layer, x, number) to the next x, of the same shape and dtype; numbers count from 1.
      scanned: whether layers that differ in their parameters alone are compiled as one, which keeps
        the time that compiling takes from growing with their number. Where they differ in more, a
        warning says so, and each is compiled. So is each where attention is watched, which cannot
        look inside.

    >>> layers = [nnx.Linear(2, 2, rngs=nnx.Rngs(i)) for i in range(3)]
    >>> x = jnp.ones(2)
    >>> one, each = (through(layers, x, lambda f, x, _: f(x), scanned=s) for s in (True, False))
    >>> bool(jnp.allclose(one, each))
    True
    """
    if scanned and (found := _as_one(layers, x, call)):
        return found[1]
    for number, layer in enumerate(layers, start=1):
        x = call(layer, x, number)
    return x


def states_between(
    layers: Sequence[nnx.Module],
    x: Array,
    call: Callable[[Any, Array, Dropout | None], Array],
    *,
    dropout: float,
    rng: Array | None,
    scanned: bool = False,
) -> tuple[Array, ...]:
    """What each layer is given, and what the last one gives.

    Args:
      layers: any modules.
      x: given to the first, after dropout.
      call: (layer, x, source of its draws) to the next x.
      dropout: the rate.
      rng: a key, or one per row of x, to drop out; None for none.
      scanned: as of :func:`through`.

    >>> layers = [nnx.Linear(2, 2, rngs=nnx.Rngs(i)) for i in range(3)]
    >>> len(states_between(layers, jnp.ones(2), lambda f, x, _: f(x), dropout=0.1, rng=None))
    4
    """
    noise = None if rng is None else Dropout(dropout, rng)
    x = x if noise is None else noise.at(0).on_features(x)

    def numbered(layer: Any, x: Array, number: Any) -> Array:
        return call(layer, x, noise and noise.at(number))

    if scanned and (found := _as_one(layers, x, numbered)):
        return (*found[0], found[1])
    states = [x]
    for number, layer in enumerate(layers, start=1):
        states.append(numbered(layer, states[-1], number))
    return tuple(states)


def _as_one(
    layers: Sequence[nnx.Module], x: Array, call: Callable[[Any, Array, Any], Array]
) -> tuple[Array, Array] | None:
    """What each layer is given, stacked, and what the last one gives; None where they cannot be one."""
    if len(layers) < 2 or is_watched():
        return None
    graphs, states = zip(*(nnx.split(layer) for layer in layers))
    if len(set(map(_kind, graphs, states))) > 1:
        warnings.warn(
            "layers that differ in more than their parameters are compiled one by one", stacklevel=3
        )
        return None
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    def next_layer(x: Array, given: Any) -> tuple[Array, Array]:
        number, state = given
        return call(nnx.merge(graphs[0], state), x, number), x

    last, given = jax.lax.scan(next_layer, x, (jnp.arange(1, len(layers) + 1), stacked))
    return given, last


def _kind(graph: Any, state: Any) -> Any:
    leaves, structure = jax.tree.flatten(state)
    return graph, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
