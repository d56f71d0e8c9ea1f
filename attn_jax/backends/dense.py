"""The reference: the whole score matrix at once. The only backend that can show weights."""

from __future__ import annotations

import jax.numpy as jnp

from attn_jax.backends.backend import Backend
from attn_jax.backends.problem import Problem
from attn_jax.backends.visibility import hide, visibility
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
        return self._sum(problem, *self.scores_and_values(problem))

    def attend_with_lse(self, problem: Problem) -> tuple[Array, Array]:
        scores, v = self.scores_and_values(problem)
        normalizer = problem.rule.normalizer
        assert isinstance(normalizer, softmax)
        return self._sum(problem, scores, v), normalizer.lse(scores)

    def weights(self, problem: Problem) -> Array:
        """What multiplies the values, before dropout: `*b h t s`."""
        scores, _ = self.scores_and_values(problem)
        return problem.rule.normalizer.weights(scores)

    def scores_and_values(self, problem: Problem) -> tuple[Array, Array | None]:
        """Masked scores `*b h t s`; values with those that no query sees zeroed."""
        q, k, v, rule, axes = problem.q, problem.k, problem.v, problem.rule, problem.axes
        if isinstance(rule.mask, everything):
            allowed = None
        else:
            allowed = rule.mask.allowed(problem.tile)
            q, k, v = hide(problem, *visibility(allowed, problem.groups))
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
