"""Linear attention: products of features summed over the keys first, O(t + s) time and memory."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.backends.backend import Backend
from attn_jax.backends.problem import Problem
from attn_jax.backends.structure import conjuncts, shift_of
from attn_jax.backends.visibility import hide
from attn_jax.functional.index_masks import lengths, valid
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything
from attn_jax.functional.normalizers import l1
from attn_jax.functional.position_masks import causal
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.scores import kernel, repeat_heads
from attn_jax.functional.tiles import Range, Tile
from attn_jax.functional.value import Array

# Positions whose scores are formed whole between two states. On two CPU cores 32 to 512 take the same
# time (n = 16,384, 8 heads of 64); an accelerator wants products of at least this size.
CHUNK = 128


class linear(Backend):
    r"""Sums over keys exchanged with sums over features.

    .. math:: y_i = \frac{\varphi(q_i) \sum_j \varphi(k_j) v_j^\top}{\varphi(q_i) \sum_j \varphi(k_j)}

    Only for ``scores.kernel`` under ``normalizers.l1``. Causal sums run over chunks: a state of the
    keys before, and the scores within the chunk.

    Reference: Katharopoulos et al. (2020), equations 5 and 9 to 12.

    >>> linear()
    linear()
    """

    def refuses(self, problem: Problem) -> str | None:
        rule = problem.rule
        if not isinstance(rule.score, kernel) or not isinstance(rule.normalizer, l1):
            return (
                "it needs a score that is a product of features, scores.kernel, and normalizers.l1"
            )
        if rule.bias is not None or rule.transform is not None or problem.dropout is not None:
            return "biases, transforms and dropout change single weights, which it never forms"
        for leaf in conjuncts(rule.mask):
            if isinstance(leaf, causal):
                if _offset(leaf, problem) is None:
                    return "causal() needs positions in order and an offset known while tracing"
            elif not isinstance(leaf, everything | valid | lengths):
                return f"of masks it honours causal, valid and lengths joined by &, not {leaf!r}"
        return None

    def suits(self, problem: Problem) -> bool:
        return problem.axes.t * problem.axes.s > 512 * 512

    def cost(self, problem: Problem) -> str:
        return f"{problem.axes.t} + {problem.axes.s} products of features, no score matrix"

    def attend(self, problem: Problem) -> Array:
        rule, (batch, h, t, s) = problem.rule, problem.axes
        leaves = conjuncts(rule.mask)
        offsets = [_offset(leaf, problem) for leaf in leaves if isinstance(leaf, causal)]
        offset = min((o for o in offsets if o is not None), default=None)
        last = s if offset is None else min(max(t + offset, 0), s)  # keys any query can reach
        seen = jnp.broadcast_to(_keys(leaves, problem), (*batch, s)) & (np.arange(s) < last)
        count = jnp.cumsum(seen, -1)
        reach = np.arange(t) + (s if offset is None else offset)
        seeing = jnp.take(count, np.clip(reach, 0, max(s - 1, 0)), axis=-1, mode="clip") > 0
        seeing = seeing & (reach >= 0)

        q, k, v = hide(problem, seeing[..., None], seen[..., None])
        q = rule.score.prepare_q(q)
        k = k.keys if isinstance(k, PreparedKeys) else rule.score.prepare_k(k)
        k = jnp.where(seen[..., None, None], k, 0)
        k, wide = repeat_heads(k, h), repeat_heads(v, h).astype(k.dtype)
        # Averages do not depend on the origin; what rounding does to a slope, the difference of two sums
        # over all keys, does. Queries that see different keys have no origin to share.
        centre = _mean(wide, seen) if offset is None else jnp.zeros((), wide.dtype)
        ones = jnp.ones_like(wide[..., :1])  # so that the total comes along
        wide = jnp.concatenate([wide - centre, ones], -1)
        if offset is None:
            sums = jnp.einsum("...thf,...hfe->...the", q, _state(k, wide))
        else:
            sums = _causal(q, k, wide, offset)
        y, total = sums[..., :-1], sums[..., -1:]
        y = rule.normalizer.normalise(y, total) + jnp.where(total != 0, centre, 0)
        return jnp.where(seeing[..., None, None], y, 0).astype(v.dtype)


def _offset(mask: causal, problem: Problem) -> int | None:
    """o, where query i may look at the keys up to i + o, by index; None where that is not known."""
    shift = shift_of(problem)
    return None if shift is None or not isinstance(mask.offset, int) else shift + mask.offset


def _keys(leaves: list[Mask], problem: Problem) -> Any:
    """Which keys the masks of keys alone allow: broadcasts to `*b s`."""
    one = Tile(Range(0, 1), Range(0, problem.axes.s), problem.positions)
    allowed = jnp.ones((1,), bool)
    for leaf in leaves:
        if isinstance(leaf, valid | lengths):
            entries = leaf.allowed(one)
            allowed = allowed & (entries[..., 0, 0, :] if entries.ndim > 2 else entries[0])
    return allowed


def _mean(v: Array, seen: Array) -> Array:
    """The mean of the values `*b s h e` that are seen (the others are 0), `*b 1 h e`, a constant."""
    number = jnp.maximum(seen.sum(-1), 1)[..., None, None, None]
    return jax.lax.stop_gradient(v.sum(-3, keepdims=True) / number.astype(v.dtype))


def _state(k: Array, v: Array) -> Array:
    return jnp.einsum("...shf,...she->...hfe", k, v)


def _causal(q: Array, k: Array, v: Array, offset: int) -> Array:
    """Sums over the keys up to i + offset, a chunk of positions after another: `*b t h e`."""
    t, axis = q.shape[-3], q.ndim - 3
    front = max(offset, 0), max(-offset, 0)  # now query i may look at keys up to i
    n = max(t + front[0], k.shape[-3] + front[1])
    n += -n % CHUNK

    def chunks(x: Array, before: int) -> Array:
        padding = [(0, 0)] * x.ndim
        padding[axis] = (before, n - before - x.shape[axis])
        x = jnp.pad(x, padding)
        x = x.reshape(*x.shape[:axis], n // CHUNK, CHUNK, *x.shape[axis + 1 :])
        return jnp.moveaxis(x, axis, 0)

    earlier = np.tri(CHUNK, dtype=bool)

    def step(state: Array, chunk: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        q, k, v = chunk
        scores = jnp.where(earlier, jnp.einsum("...thf,...shf->...hts", q, k), 0)
        y = jnp.einsum("...thf,...hfe->...the", q, state)
        y = y + jnp.einsum("...hts,...she->...the", scores, v)
        return state + _state(k, v), y

    q, k, v = chunks(q, front[0]), chunks(k, front[1]), chunks(v, front[1])
    first = jnp.zeros_like(_state(k[0], v[0]))
    y = jnp.moveaxis(jax.lax.scan(step, first, (q, k, v))[1], 0, axis)
    y = y.reshape(*y.shape[:axis], n, *y.shape[axis + 2 :])
    return jax.lax.slice_in_dim(y, front[0], front[0] + t, axis=axis)
