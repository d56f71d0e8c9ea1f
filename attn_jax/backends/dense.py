"""The reference: the whole score matrix at once. The only backend that can show weights."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.backends.backend import Backend
from attn_jax.backends.problem import Problem
from attn_jax.functional.mask import Axes
from attn_jax.functional.masks import everything
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.value import Array


class dense(Backend):
    """Every score in memory, O(t s); any rule, any order of derivative.

    >>> dense()
    dense()
    """

    def refuses(self, problem: Problem) -> str | None:
        return None

    def cost(self, problem: Problem) -> str:
        return f"all {problem.axes.t} × {problem.axes.s} scores of each head in memory"

    def attend(self, problem: Problem) -> Array:
        return self._sum(problem, *self._scores_and_values(problem))

    def attend_with_lse(self, problem: Problem) -> tuple[Array, Array]:
        scores, v = self._scores_and_values(problem)
        normalizer = problem.rule.normalizer
        assert isinstance(normalizer, softmax)
        return self._sum(problem, scores, v), normalizer.lse(scores)

    def weights(self, problem: Problem) -> Array:
        """What multiplies the values, before dropout: `*b h t s`."""
        scores, _ = self._scores_and_values(problem)
        return problem.rule.normalizer.weights(scores)

    def _scores_and_values(self, problem: Problem) -> tuple[Array, Array | None]:
        """Masked scores `*b h t s`; values with those that no query sees zeroed."""
        q, k, v, rule, axes = problem.q, problem.k, problem.v, problem.rule, problem.axes
        if isinstance(rule.mask, everything):
            allowed = None
        else:
            allowed = rule.mask.allowed(problem.tile)
            seeing, seen = visibility(allowed, axes, problem.groups)
            q, k, v = zero_unless(seeing, q, 1), zero_unless(seen, k, 0.5), zero_unless(seen, v)
        keys = k.keys if isinstance(k, PreparedKeys) else rule.score.prepare_k(k)
        scores = rule.logits(rule.score.prepare_q(q), keys, problem.tile)
        shape = (*axes.batch, axes.h, axes.t, axes.s)
        if scores.shape != shape:
            raise ValueError(
                f"score, bias and transform must give *b h t s = {shape}, got {scores.shape}"
            )
        if allowed is not None:
            scores = jnp.where(allowed, scores, -jnp.inf)
        return scores, v

    def _sum(self, problem: Problem, scores: Array, v: Array | None) -> Array:
        assert v is not None
        axes = problem.axes
        weights = problem.rule.normalizer.weights(scores)
        if problem.dropout is not None:
            h, t, s = (jnp.arange(n) for n in (axes.h, axes.t, axes.s))
            weights = problem.dropout.on_weights(weights, h, t, s)
        return weighted_sum(weights, v)


def weighted_sum(weights: Array, v: Array) -> Array:
    """Weights `*b h t s` times values `*b s g e`: `*b t h e`, accumulated in the wider precision."""
    h, g = weights.shape[-3], v.shape[-2]
    accumulate = jnp.promote_types(weights.dtype, v.dtype)
    low_precision = jnp.finfo(v.dtype).bits < 32
    weights = weights.astype(v.dtype) if low_precision else weights
    if h == g:
        y = jnp.einsum("...hts,...she->...the", weights, v, preferred_element_type=accumulate)
        return y.astype(v.dtype)
    weights = weights.reshape(*weights.shape[:-3], g, h // g, *weights.shape[-2:])
    y = jnp.einsum("...grts,...sge->...tgre", weights, v, preferred_element_type=accumulate)
    return y.reshape(*y.shape[:-3], h, v.shape[-1]).astype(v.dtype)


def visibility(allowed: Array, axes: Axes, groups: int) -> tuple[Array, Array]:
    """Which queries see any key, `… t h|1`, and which keys any query of their group sees, `… s g|1`."""
    allowed = allowed if allowed.ndim > 2 else allowed[None]
    seeing = jnp.swapaxes(allowed.any(-1), -1, -2)
    seen = allowed.any(-2)
    if seen.shape[-2] > 1:
        by_group = (*seen.shape[:-2], groups, axes.h // groups, seen.shape[-1])
        seen = seen.reshape(by_group).any(-2)
    return seeing, jnp.swapaxes(seen, -1, -2)


def zero_unless(visible: Array, x: Any, number: float = 0) -> Any:
    """Arrays `*b n heads …`, zeroed where a query or a key takes part in nothing.

    Another number than 0 does as well; a user's score has its singular points, if it has any, at 0
    and where a query equals a key, and there not even a cotangent of 0 gives a gradient of 0.
    """

    def zero(leaf: Array) -> Array:
        where = visible.reshape(visible.shape + (1,) * (leaf.ndim - heads_end))
        return jnp.where(where, leaf, jnp.asarray(number, leaf.dtype))

    if x is None:
        return None
    heads_end = x.ndim - 1
    return jax.tree.map(zero, x)
