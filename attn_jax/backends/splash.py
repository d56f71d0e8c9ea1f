"""JAX's splash attention, a kernel for TPUs, in the words of a problem."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.backends.fused_operands import alike, lifted, per_row
from attn_jax.backends.problem import Problem
from attn_jax.backends.structure import Structure, structure_of
from attn_jax.backends.visibility import hide
from attn_jax.functional.masks import everything
from attn_jax.functional.value import Array

LANES = 128
"""Lengths and depths are padded to multiples of this, the width of a TPU's vector registers."""


def refuses(problem: Problem) -> str | None:
    """Why the kernel cannot do a problem whose score is an inner product, exactly; None if it can."""
    rule = problem.rule
    if problem.lse or rule.normalizer.sink is not None:  # type: ignore[attr-defined]
        return "splash's log-sum-exp, which sinks need too, has no gradient; blockwise has both"
    if rule.bias is not None:
        return "splash knows no bias; blockwise and fused('xla') do"
    if structure_of(problem) is None:
        return f"splash is told of bands and lengths by name, which {rule.mask!r} is not"
    return None


def attend(problem: Problem, structure: Structure) -> Array:
    """The averages of the values, `b t h c`; elsewhere than on a TPU by interpreting the kernel.

    Its tiles are the kernel's default, 128 × 128, not tuned on a TPU.
    """
    q, k, v = problem.q, problem.k, problem.v
    if not isinstance(problem.rule.mask, everything):
        q, k, v = hide(problem, structure.seeing()[..., None], structure.seen()[..., None])
    lift = lifted(problem, q, k)
    assert lift is not None
    operands = alike(lift, v, len(problem.axes.batch))
    n = structure.s if structure.n is None else jnp.clip(structure.n, 1, structure.s)
    lengths = per_row(jnp.asarray(n), problem.axes.batch)

    def by(interpret: bool) -> Any:
        return lambda *x: _attend(structure, lift.scale, interpret, *x)

    return jax.lax.platform_dependent(*operands, lengths, tpu=by(False), default=by(True))


def _attend(
    structure: Structure, scale: float, interpret: bool, q: Array, k: Array, v: Array, n: Array
) -> Array:
    """The same of `b t h c`, `b s g c` and numbers of keys, `b`."""
    # Pallas takes most of a second to import, which other backends are spared.
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as known

    q, k, v = (_heads_first(x) for x in (q * jnp.asarray(scale, q.dtype), k, v))
    shape = q.shape[-2], k.shape[-2]
    mask: Any = known.FullMask(shape)
    if not (structure.from_start and structure.to_end):
        # Of a bound that the queries and keys there are never reach, nothing is computed.
        before = None if structure.from_start else -structure.low
        after = None if structure.to_end else structure.high
        mask = known.LocalMask(shape, (before, after), 0)
    splash = kernel.make_splash_mha(
        known.MultiHeadMask([mask] * q.shape[1]), head_shards=1, q_seq_shards=1, interpret=interpret
    )
    queries, keys = jnp.zeros(shape[0], jnp.int32), jnp.arange(shape[1])

    def row(q: Array, k: Array, v: Array, n: Array) -> Array:
        ids = kernel.SegmentIds(queries, (keys >= n).astype(jnp.int32))
        return splash(q, k, v, segment_ids=ids)

    return jnp.swapaxes(jax.vmap(row)(q, k, v, n)[..., : structure.t, :], -2, -3)


def _heads_first(x: Array) -> Array:
    """`b t h c` as `b h t c`, with time and depth padded."""
    x = jnp.swapaxes(x, -2, -3)
    return jnp.pad(x, [(0, 0)] * 2 + [(0, -size % LANES) for size in x.shape[-2:]])
