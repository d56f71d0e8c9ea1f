"""Scores: how well a query and a key match, a real number for every pair.

A score has three pure parts: ``prepare_q`` and ``prepare_k``, done once per sequence (and cacheable),
and ``pair``, done on tiles. Axis letters: `b` batch, `t` query, `s` key, `h` query heads, `g` key heads
(`g` divides `h`; query head i meets key head ``i // (h // g)``), `d` depth of queries, `c` of keys where
it differs. Scores are float32, or float64 where q or k is; ValueError where depths do not fit, or a
parameter is neither a scalar nor one number per query head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.functional.distance_scores import (
    boxcar,
    epanechnikov,
    gaussian,
    l2,
    laplace,
    triangular,
)
from attn_jax.functional.dot_scores import bilinear, cosine, dot, kernel, project, scaled_dot
from attn_jax.functional.score import Lift, Score, repeat_heads, score_dtype, sum_over_depth
from attn_jax.functional.value import Array, leaf, show

__all__ = [
    "Lift", "Score", "additive", "bilinear", "boxcar", "cosine", "dot", "epanechnikov", "gaussian",
    "kernel", "l2", "laplace", "pairwise", "scaled_dot", "triangular",
]  # fmt: skip


class additive(Score):
    r"""A network of one hidden layer, :math:`v^\top \tanh(W_q^\top q + W_k^\top k)`.

    Keys and queries are projected once per sequence; ``rule.prepare(keys)`` keeps the keys'.

    Args:
      w_q: `d a`, applied as ``q @ w_q``.
      w_k: `c a`.
      v: `a`. All three are shared by the heads.

    Shapes:
      q: `*b t h d`.  k: `*b s g c`.  returns: `*b h t s`.

    Raises:
      ValueError: depths or widths that do not fit.

    Reference: Bahdanau, Cho and Bengio (2015), appendix A.1.2.

    >>> score = additive(jnp.ones((2, 4)), jnp.ones((3, 4)), jnp.ones(4))
    >>> score.pair(score.prepare_q(jnp.ones((1, 1, 2))), score.prepare_k(jnp.zeros((1, 1, 3))))
    Array([[[3.856...]]], dtype=float32)
    """

    w_q: Array = leaf()
    w_k: Array = leaf()
    v: Array = leaf()

    def check(self, q_depth: int, k_depth: int) -> None:
        w_q, w_k, v = jnp.shape(self.w_q), jnp.shape(self.w_k), jnp.shape(self.v)
        if len(v) != 1 or w_q != (q_depth, *v) or w_k != (k_depth, *v):
            raise ValueError(
                f"scores.additive needs w_q: d a, w_k: c a and v: a, with d = {q_depth} the depth of "
                f"q and c = {k_depth} that of k; got {w_q}, {w_k} and {v}"
            )

    def prepare_q(self, q: Array) -> Array:
        return project(q, self.w_q)

    def prepare_k(self, k: Array) -> Array:
        return project(k, self.w_k)

    def pair(self, q: Array, k: Array) -> Array:
        return sum_over_depth(lambda a, b, v: v * jnp.tanh(a + b), q, k, self.v)


class pairwise(Score):
    """Your own score, a function of one query and one key.

    Args:
      fn: ``fn(q, k, **leaves) -> scalar`` on two vectors, `d` each, in the dtype of scores. It may
        close over arrays.
      leaves: arrays it takes besides, learnable; each is handed over whole.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`.

    >>> score = pairwise(lambda q, k, *, w: -w * jnp.abs(q - k).sum(), w=2.0)
    >>> score.pair(jnp.zeros((1, 1, 3)), jnp.ones((2, 1, 3)))
    Array([[[-6., -6.]]], dtype=float32)
    """

    fn: Callable[..., Array]
    leaves: Any

    def __init__(self, fn: Callable[..., Array], **leaves: Any) -> None:
        object.__setattr__(self, "fn", fn)
        arrays = {
            name: jnp.asarray(x, float) if isinstance(x, int | float) else x
            for name, x in leaves.items()
        }
        object.__setattr__(self, "leaves", arrays)
        self.__post_init__()

    def replace(self, **changes: Any) -> pairwise:
        return pairwise(changes.pop("fn", self.fn), **changes.pop("leaves", self.leaves), **changes)

    def check(self, q_depth: int, k_depth: int) -> None:
        pass

    def pair(self, q: Array, k: Array) -> Array:
        dtype = score_dtype(q, k)
        q, k = q.astype(dtype), repeat_heads(k, q.shape[-2]).astype(dtype)

        def one(query: Array, key: Array) -> Array:
            return jnp.asarray(self.fn(query, key, **self.leaves))

        over_heads = jax.vmap(one)  # h
        over_keys = jax.vmap(over_heads, in_axes=(None, 0))  # s h
        table = jax.vmap(over_keys, in_axes=(0, None))  # t s h
        for _ in q.shape[:-3]:
            table = jax.vmap(table)
        scores = table(q, k)
        if scores.ndim != q.ndim:
            raise ValueError(
                f"scores.pairwise: {show(self.fn)} must return a scalar for a query and a key, got "
                f"shape {scores.shape[q.ndim :]}"
            )
        return jnp.moveaxis(scores, -1, -3).astype(dtype)

    def __repr__(self) -> str:
        named = "".join(f", {name}={show(x)}" for name, x in self.leaves.items())
        return f"pairwise({show(self.fn)}{named})"
