"""How much of the source a hypothesis has looked at."""

from __future__ import annotations

from typing import Any, Self

import jax.numpy as jnp

from attn_jax.decode.hypotheses import Step, take
from attn_jax.functional.value import Array, Value

LEAST = 1e-10
"""What a token that was never looked at counts as having received; its logarithm is finite."""


class Covered(Value):
    r"""A model's cache, and how much attention each source token has received so far.

    Args:
      cache: of the model.
      received: `b k s`, the weights of all steps, summed.
      real: `b s`, which source tokens are no padding.
    """

    cache: Any
    received: Array
    real: Array

    def select(self, parents: Array) -> Self:
        """That of hypotheses that continue `parents`, `b k`."""
        return self.replace(cache=self.cache.select(parents), received=take(self.received, parents))

    def coverage(self) -> Array:
        r""":math:`\sum_j \log \min(\sum_i p_{ij}, 1)` over the real source tokens: `b k`, at most 0."""
        received = jnp.log(jnp.clip(self.received, LEAST, 1.0))
        return jnp.sum(jnp.where(self.real[:, None], received, 0.0), axis=-1)


def covering(model: Any, cache: Any, real: Array, size: int) -> tuple[Step, Covered]:
    """A model's step, and its cache, that keep account of the source.

    Args:
      model: with ``step_and_look(tokens, cache)``, which returns besides what ``step`` does where the
        decoder looks, `b k s`, as :class:`attn_jax.models.Transformer` has it.
      cache: before the first token.
      real: `b s`, which source tokens are no padding.
      size: k, hypotheses of a row.

    Raises:
      ValueError: the model does not look at its source.
    """
    if not hasattr(model, "step_and_look"):
        raise ValueError(
            f"a coverage penalty needs a model that looks at its source; {type(model).__name__} has"
            " no `step_and_look`"
        )

    def step(tokens: Array, covered: Covered) -> tuple[Array, Covered]:
        logits, cache, seen = model.step_and_look(tokens, covered.cache)
        received = covered.received + seen.astype(jnp.float32)
        return logits, Covered(cache, received, covered.real)

    rows, length = real.shape
    return step, Covered(cache, jnp.zeros((rows, size, length), jnp.float32), real)
