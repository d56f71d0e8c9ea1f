"""Training in a few lines: a scan over steps of an optimiser of Optax."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax


def descend(
    loss: Callable[[Any, Any], Any],
    weights: Any,
    optimizer: optax.GradientTransformation,
    steps: int,
    watch: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """Minimises a loss.

    Args:
      loss: of the weights and the number of the step, from 0.
      weights: to begin with.
      optimizer: of Optax.
      steps: how many.
      watch: of the weights after a step and its number: what to keep of it.

    Returns:
      The weights at the end, and what was kept of each step.
    """

    def step(carry: Any, i: jax.Array) -> tuple[Any, Any]:
        weights, state = carry
        updates, state = optimizer.update(jax.grad(loss)(weights, i), state, weights)
        weights = optax.apply_updates(weights, updates)
        return (weights, state), watch(weights, i)

    begin = weights, optimizer.init(weights)
    (weights, _), kept = jax.lax.scan(step, begin, jnp.arange(steps))
    return weights, kept


def normal(rng: jax.Array, *shape: int) -> jax.Array:
    """A matrix of inputs by outputs, or a stack of them, that keeps the variance of its inputs."""
    return jax.random.normal(rng, shape) * shape[-2] ** -0.5
