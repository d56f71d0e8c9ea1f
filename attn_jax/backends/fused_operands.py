"""A problem in the words of kernels that know only inner products."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.backends.problem import Problem
from attn_jax.backends.structure import Structure, structure_of
from attn_jax.backends.visibility import hide, visibility
from attn_jax.functional.masks import everything
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.score import Lift, inner, score_dtype
from attn_jax.functional.value import Array, Value


class Operands(Value):
    """What jax.nn.dot_product_attention is given: batch axes as one, one depth, one dtype.

    q: `b t h c`. k, v: `b s g c`. offset: as in :class:`Lift`. bias, mask: `b|1 h|1 t|1 s|1` or None.
    lengths: `b` or None. seeing: which queries see any key, `… t h|1`, or None for all.
    """

    q: Array
    k: Array
    v: Array
    offset: Array | None
    bias: Array | None
    mask: Array | None
    lengths: Array | None
    seeing: Array | None
    scale: float
    causal: bool
    window: int | None

    @classmethod
    def of(cls, problem: Problem) -> Operands | None:
        """Those of a problem; None where the score is no inner product."""
        rule, batch = problem.rule, problem.axes.batch
        structure, bias = _told(problem), _bias(problem)
        q, k, v = problem.q, problem.k, problem.v
        allowed: Any = None
        seeing: Array | None
        if structure is None:
            allowed = rule.mask.allowed(problem.tile)
            seeing, seen = visibility(allowed, problem.groups)
        else:
            seeing, seen = structure.seeing()[..., None], structure.seen()[..., None]
        if isinstance(rule.mask, everything):
            seeing = None
        else:
            q, k, v = hide(problem, seeing, seen)
        if bias is not None:
            # A score of −inf is one that is not seen; jax.nn's large negative number would win over it.
            visible = bias > -jnp.inf
            allowed, bias = allowed & visible, jnp.where(visible, bias, 0)
            seeing, _ = visibility(allowed, problem.groups)
        lift = lifted(problem, q, k)
        if lift is None:
            return None
        q, k, v = alike(lift, v, len(batch))
        n = None if structure is None else structure.n
        return cls(
            q, k, v, lift.offset,
            bias=_four_axes(bias, problem),
            mask=_four_axes(allowed, problem),
            # No length is 0: such rows are overwritten, and kernels need not know of them.
            lengths=None if n is None else per_row(jnp.clip(n, 1, problem.axes.s), batch),
            seeing=seeing,
            scale=lift.scale,
            causal=structure is not None and not structure.to_end,
            window=None if structure is None or structure.from_start else -structure.low,
        )  # fmt: skip

    @property
    def told_by_name(self) -> bool:
        """Whether no array of t × s is among them."""
        return self.mask is None and self.bias is None

    def attend(self, implementation: Any) -> Array:
        """The averages of the values, `b t h c`."""
        if implementation == "cudnn":
            return self._by_cudnn()
        q, k, v = self.q, self.k, self.v
        if q.dtype == jnp.float16:  # jax.nn asks XLA for a product that only GPUs have
            q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
        y = jax.nn.dot_product_attention(
            q, k, v, self.bias, self.mask, key_value_seq_lengths=self.lengths,
            implementation=implementation, **self._known,
        )  # fmt: skip
        return y.astype(self.v.dtype)

    def _by_cudnn(self) -> Array:
        """The same. JAX's batching of cuDNN's kernel relies on arrays that are all mapped, and whole."""
        b, t, h, _ = self.q.shape
        bias, mask = (
            x if x is None else jnp.broadcast_to(x, (b, h, t, self.k.shape[-3]))
            for x in (self.bias, self.mask)
        )
        queries = None if self.lengths is None else jnp.full_like(self.lengths, t)
        operands = self.q, self.k, self.v, bias, mask, self.lengths, queries
        some = [x.reshape(-1)[0] for x in jax.tree.leaves(operands)]
        never = functools.reduce(operator.or_, (x != x for x in some)) & False

        def mapped(x: Array) -> Array:
            return jnp.where(never, jnp.zeros((), x.dtype), x)

        q, k, v, bias, mask, keys, queries = jax.tree.map(mapped, operands)
        y = jax.nn.dot_product_attention(
            q, k, v, bias, mask, query_seq_lengths=queries, key_value_seq_lengths=keys,
            implementation="cudnn", **self._known,
        )  # fmt: skip
        return mapped(y)  # and so its cotangent

    @property
    def _known(self) -> dict[str, Any]:
        """What is known while tracing."""
        window = None if self.window is None else (self.window, 0)
        return {"scale": self.scale, "is_causal": self.causal, "local_window_size": window}

    def scores(self, problem: Problem) -> Array:
        """Masked scores, `*b h t s`, for what the kernel does not return."""
        batch, h, t, s = problem.axes
        scores = inner(self.q, self.k) * self.scale
        if self.bias is not None:
            scores = scores + self.bias.astype(scores.dtype)
        scores = scores.reshape(*batch, h, t, s)
        if self.offset is not None:
            scores = scores + self.offset[..., None]
        if self.mask is not None:
            allowed = jnp.broadcast_to(self.mask, (self.q.shape[0], h, t, s))
            return jnp.where(allowed.reshape(scores.shape), scores, -jnp.inf)
        if isinstance(problem.rule.mask, everything):
            return scores
        return jnp.where(problem.rule.mask.allowed(problem.tile), scores, -jnp.inf)


def lifted(problem: Problem, q: Array, k: Any) -> Lift | None:
    """Queries and keys whose inner products are the scores; None where the score has no such."""
    score = problem.rule.score
    keys = k.keys if isinstance(k, PreparedKeys) else score.prepare_k(k)
    return score.lift(score.prepare_q(q), keys)


def _told(problem: Problem) -> Structure | None:
    """What of the mask the kernel is told by name, where that says all of it."""
    structure = structure_of(problem)
    if structure is None or problem.rule.bias is not None:
        return None
    if structure.to_end and structure.from_start:
        return structure
    # cuDNN knows a window before the query only as a part of a causal mask, and without lengths.
    window = structure.low <= 0 and structure.n is None
    return structure if structure.high == 0 and (structure.from_start or window) else None


def _bias(problem: Problem) -> Array | None:
    if problem.rule.bias is None:
        return None
    bias = problem.rule.bias.values(problem.tile)
    if not jnp.issubdtype(bias.dtype, jnp.floating):
        bias = bias.astype(score_dtype(problem.q, *jax.tree.leaves(problem.k)))
    return bias


def alike(lift: Lift, v: Array | None, batch: int) -> tuple[Array, Array, Array]:
    """Queries, keys and values of one dtype and depth, with one batch axis."""
    assert v is not None
    dtype = jnp.result_type(lift.q, lift.k, v)
    depth = max(lift.q.shape[-1], v.shape[-1])
    if jnp.finfo(dtype).bits < 32:
        depth += -depth % 8  # as cuDNN wants it

    def one(x: Array) -> Array:
        x = x.reshape(math.prod(x.shape[:batch]), *x.shape[batch:]).astype(dtype)
        return jnp.pad(x, [(0, 0)] * 3 + [(0, depth - x.shape[-1])])

    return one(lift.q), one(lift.k), one(v)


def _four_axes(x: Array | None, problem: Problem) -> Array | None:
    """An array that broadcasts to `*b h t s` with all its batch axes as one: `b|1 h|1 t|1 s|1`."""
    if x is None:
        return None
    batch = problem.axes.batch
    x = x.reshape((1,) * (len(batch) + 3 - x.ndim) + x.shape)
    if any(n > 1 for n in x.shape[:-3]):
        x = jnp.broadcast_to(x, (*batch, *x.shape[-3:]))
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def per_row(n: Array, batch: tuple[int, ...]) -> Array:
    """A number that broadcasts to `*b`, with one batch axis, int32."""
    return jnp.broadcast_to(n, batch).reshape(-1).astype(jnp.int32)
