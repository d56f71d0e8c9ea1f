"""Scores: how well a query and a key match, a real number for every pair.

A score has three pure parts: ``prepare_q`` and ``prepare_k``, done once per sequence (and cacheable),
and ``pair``, done on tiles. Axis letters: `b` batch, `t` query, `s` key, `h` query heads, `g` key heads
(`g` divides `h`; query head i meets key head ``i // (h // g)``), `d` depth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.functional.value import Array, Value, leaf, show

__all__ = ["Score", "dot", "pairwise", "scaled_dot"]


class Score(Value):
    """A score of queries and keys; subclass it with a ``pair``, and prepare what can be shared.

    Prepared queries and keys may be any pytree of arrays that keep the axes of what they were made
    from: `*b t h …` and `*b s g …`.
    """

    def check(self, q_depth: int, k_depth: int) -> None:
        """Raises ValueError where queries and keys of these depths cannot be scored."""
        if q_depth != k_depth:
            raise ValueError(
                f"scores.{self!r} needs queries and keys of one depth d: q has {q_depth}, "
                f"k has {k_depth}"
            )

    def prepare_q(self, q: Array) -> Any:
        """What `pair` needs of the queries, `*b t h …`."""
        return q

    def prepare_k(self, k: Array) -> Any:
        """What `pair` needs of the keys, `*b s g …`."""
        return k

    def pair(self, q: Any, k: Any) -> Array:
        """Scores `*b h t s`, float32 (float64 for float64), of prepared queries and keys."""
        raise NotImplementedError


class dot(Score):
    r"""Inner product, :math:`q \cdot k`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, in the units of q times those of k.

    Reference: Luong, Pham and Manning (2015), equation 8.

    >>> q, k = jnp.ones((2, 1, 4)), jnp.ones((3, 1, 4))
    >>> dot().pair(q, k)
    Array([[[4., 4., 4.],
            [4., 4., 4.]]], dtype=float32)
    """

    def pair(self, q: Array, k: Array) -> Array:
        return inner(q, k)


class scaled_dot(Score):
    r"""Inner product times a scale, :math:`q \cdot k / \sqrt{d}` unless told otherwise.

    Dividing by √d keeps the variance of the scores at 1 when the entries of q and k have variance 1.

    Args:
      scale: what to multiply by instead of 1/√d; a scalar, or one per query head, `h`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`, dimensionless.

    Reference: Vaswani et al. (2017), equation 1.

    >>> q, k = jnp.ones((2, 1, 4)), jnp.ones((3, 1, 4))
    >>> scaled_dot().pair(q, k)[0, 0]
    Array([2., 2., 2.], dtype=float32)
    """

    scale: Array | None = leaf(default=None)

    def pair(self, q: Array, k: Array) -> Array:
        scale = q.shape[-1] ** -0.5 if self.scale is None else per_head(self.scale)
        return inner(q, k) * scale


class pairwise(Score):
    """Your own score, a function of one query and one key.

    Args:
      fn: ``fn(q, k, **leaves) -> scalar`` on two vectors, `d` each. It may close over arrays.
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

    def check(self, q_depth: int, k_depth: int) -> None:
        pass

    def pair(self, q: Array, k: Array) -> Array:
        k = repeat_heads(k, q.shape[-2])

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
        return jnp.moveaxis(scores, -1, -3).astype(score_dtype(q, k))

    def __repr__(self) -> str:
        named = "".join(f", {name}={show(x)}" for name, x in self.leaves.items())
        return f"pairwise({show(self.fn)}{named})"


def score_dtype(*arrays: Array) -> Any:
    """The dtype scores have: float32, or float64 where an operand is."""
    return jnp.promote_types(jnp.result_type(*arrays), jnp.float32)


def per_head(x: Array) -> Array:
    """A scalar as it is; one number per head, `h`, to broadcast against scores: `h 1 1`."""
    return x[:, None, None] if jnp.ndim(x) == 1 else x


def inner(q: Array, k: Array) -> Array:
    """Inner products of every query and key of the heads that meet: `*b h t s`, float32 or float64."""
    *_, t, h, d = q.shape
    s, g = k.shape[-3:-1]
    dtype = score_dtype(q, k)
    if h == g:
        return jnp.einsum("...thd,...shd->...hts", q, k, preferred_element_type=dtype)
    q = q.reshape(*q.shape[:-3], t, g, h // g, d)
    scores = jnp.einsum("...tgrd,...sgd->...grts", q, k, preferred_element_type=dtype)
    return scores.reshape(*scores.shape[:-4], h, t, s)


def repeat_heads(k: Array, h: int) -> Array:
    """Key heads repeated to meet the query heads: `*b s g …` to `*b s h …`."""
    return k if k.shape[-2] == h else jnp.repeat(k, h // k.shape[-2], axis=-2)
