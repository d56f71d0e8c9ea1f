"""What the weights of each query are like, without keeping the weights."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from attn_jax.backends.blockwise import blockwise
from attn_jax.backends.dense import dense
from attn_jax.backends.problem import Problem, describe
from attn_jax.backends.streamed_statistics import streamed_statistics
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.functional.tiles import Positions
from attn_jax.functional.value import Array


class AttentionStats(NamedTuple):
    """Statistics of the weights of each query, each `*b h t`, float32 (float64 for float64).

    Of a query that sees nothing `max_score` is −inf and all else 0.
    """

    entropy: Array
    """Σ −w log w, in nats, with 0 log 0 = 0."""

    max_score: Array
    """The highest score of a key it sees, after bias and transform."""

    max_weight: Array
    """The largest weight, before dropout."""

    self_weight: Array
    """The weight of keys at the query's own position."""

    distance: Array
    """Σ w |i − j| over the positions of query and keys, in positions."""


def attention_stats(
    q: Array,
    k: Array | PreparedKeys,
    *,
    rule: Rule = Rule(),  # noqa: B008 (a rule is an immutable value)
    positions: Positions | str | None = None,
) -> AttentionStats:
    r"""Entropy, highest score, largest weight, weight on self and expected distance of each query.

    That is :math:`-\sum_j w_{ij} \ln w_{ij}`, :math:`\max_j s_{ij}`, :math:`\max_j w_{ij}`, the sum of
    :math:`w_{ij}` over :math:`j = i`, and :math:`\sum_j w_{ij} |i - j|`.

    Args and raises: as :func:`attend`. Positions are indices ("start") where the rule reads none and
    none are given.

    Returns:
      AttentionStats of arrays `*b h t`, differentiable.

    >>> x = jnp.zeros((3, 1, 2))
    >>> stats = attention_stats(x, x)
    >>> stats.entropy.round(4), stats.distance.round(4)
    (Array([[1.0986, 1.0986, 1.0986]], dtype=float32), Array([[1.    , 0.6667, 1.    ]], dtype=float32))
    """
    problem = describe(q, k, None, rule, positions)
    backend = blockwise()
    if backend.suits(problem) and not backend.refuses(problem):
        return AttentionStats(*streamed_statistics(problem, backend.tiles(problem)))
    return _densely(problem)


def _densely(problem: Problem) -> AttentionStats:
    scores, _ = dense().scores_and_values(problem)
    weights = problem.rule.normalizer.weights(scores)
    i, j = problem.tile.i, problem.tile.j
    some = weights > 0
    # Looked up where it is, not reduced: XLA may compute a score twice, with other roundings, and then
    # the derivative of a maximum finds no score equal to it.
    some_or_none = [(0, 0)] * (scores.ndim - 1) + [(0, int(scores.shape[-1] == 0))]
    best = jnp.pad(scores, some_or_none, constant_values=-jnp.inf)
    where = best.argmax(-1, keepdims=True)

    def highest(x: Array, otherwise: float) -> Array:
        return jnp.take_along_axis(x, where, -1, mode="fill", fill_value=otherwise)[..., 0]

    return AttentionStats(
        entropy=jnp.where(some, -weights * jnp.log(jnp.where(some, weights, 1)), 0).sum(-1),
        max_score=highest(scores, -jnp.inf),
        max_weight=highest(weights, 0),
        self_weight=jnp.where(i == j, weights, 0).sum(-1),
        distance=(weights * jnp.abs(i - j)).sum(-1),
    )
