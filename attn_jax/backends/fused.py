"""Kernels that know only inner products: jax.nn.dot_product_attention, by XLA or by cuDNN."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.backends.backend import Backend
from attn_jax.backends.dense import dense
from attn_jax.backends.problem import Problem
from attn_jax.backends.structure import Structure, structure_of
from attn_jax.backends.visibility import hide, visibility
from attn_jax.functional.masks import everything
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.score import Lift, inner, score_dtype
from attn_jax.functional.value import Array, Value


class fused(Backend):
    """``jax.nn.dot_product_attention``, for any score that is an inner product in disguise.

    A score lends its ``lift``. Causal masks, windows before the query and lengths are told to the
    kernel; any other mask, and a bias, is an array of t × s. XLA's implementation keeps all scores in
    memory and has every derivative. cuDNN's takes O(t + s) memory, float16 or bfloat16, and can be
    differentiated once, in reverse; it is refused where it would round what other backends keep in
    float32 (prepared queries, biases, log-sum-exps).

    Args:
      implementation: "xla", "cudnn", or None: in a program lowered for CUDA cuDNN where it can, and
        otherwise what JAX chooses.

    Raises:
      ValueError: another implementation.

    >>> fused("xla")
    fused('xla')
    """

    implementation: str | None = None

    def __post_init__(self) -> None:
        if self.implementation not in (None, "xla", "cudnn"):
            raise ValueError(
                f'fused(implementation) must be None, "xla" or "cudnn", got {self.implementation!r}'
            )
        super().__post_init__()

    def refuses(self, problem: Problem) -> str | None:
        rule = problem.rule
        if not isinstance(rule.normalizer, softmax):
            return (
                f"it knows only softmax, not {rule.normalizer!r}; blockwise and dense know others"
            )
        if rule.transform is not None or problem.dropout is not None:
            return "transforms and dropout change single weights, which it never shows"
        operands = jax.eval_shape(lambda: Operands.of(problem))
        if operands is None:
            return f"scores.{rule.score!r} is no inner product: it has no lift"
        if jnp.float64 in (operands.q.dtype, operands.k.dtype, operands.v.dtype):
            return "jax.nn normalises in float32 whatever it is given; blockwise keeps float64"
        return _cudnn_refuses(problem, operands) if self.implementation == "cudnn" else None

    def suits(self, problem: Problem) -> bool:
        # A kernel written for the GPU passes over the scores once, in the fast memory of a
        # multiprocessor, which XLA's loop over tiles does not. On CPU there is none, and jax.nn takes
        # 3.5 times as long as blockwise (causal, n = 4096). With a mask of t × s cuDNN, too, is O(t s).
        return (
            jax.default_backend() == "gpu"
            and structure_of(problem) is not None
            and problem.rule.bias is None
            and not self.refuses(problem)
            and self._takes_cudnn(problem)
        )

    def cost(self, problem: Problem) -> str:
        _, _, t, s = problem.axes
        if not self._takes_cudnn(problem):
            return f"jax.nn: all {t} × {s} scores of each head in memory"
        operands = jax.eval_shape(lambda: Operands.of(problem))
        lean = operands.mask is None and operands.bias is None
        return "cuDNN: " + (
            "no scores in memory" if lean else f"a mask or bias of {t} × {s} in memory"
        )

    def _takes_cudnn(self, problem: Problem) -> bool:
        if self.implementation is not None:
            return self.implementation == "cudnn"
        return not _cudnn_refuses(problem, jax.eval_shape(lambda: Operands.of(problem)))

    def attend(self, problem: Problem) -> Array:
        if 0 in (problem.axes.t, problem.axes.s):
            return dense().attend(problem)  # no score at all
        if problem.rule.normalizer.sink is not None:  # type: ignore[attr-defined]
            return self.attend_with_lse(problem)[0]
        return self._averages(problem, Operands.of(problem))

    def attend_with_lse(self, problem: Problem) -> tuple[Array, Array]:
        if 0 in (problem.axes.t, problem.axes.s):
            return dense().attend_with_lse(problem)
        operands, normalizer = Operands.of(problem), problem.rule.normalizer
        assert operands is not None
        assert isinstance(normalizer, softmax)
        y = self._averages(problem, operands)
        # jax.nn's own log-sum-exp has no gradient.
        lse = softmax().lse(operands.scores(problem))
        with_sink, lse = normalizer.with_sink(y, lse)
        return with_sink.astype(y.dtype), lse

    def _averages(self, problem: Problem, operands: Operands | None) -> Array:
        assert operands is not None
        if self.implementation is None and self._takes_cudnn(problem):
            y = jax.lax.platform_dependent(
                operands, cuda=lambda o: o.attend("cudnn"), default=lambda o: o.attend(None)
            )
        else:
            y = operands.attend(self.implementation)
        axes, v = problem.axes, problem.v
        assert v is not None
        y = y[..., : v.shape[-1]].reshape(*axes.batch, axes.t, axes.h, v.shape[-1])
        if operands.seeing is not None:  # elsewhere it averaged what is hidden
            y = jnp.where(operands.seeing[..., None], y, 0)
        return y.astype(v.dtype)


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
        q, k, v, allowed, seeing = problem.q, problem.k, problem.v, None, None
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
        k = k.keys if isinstance(k, PreparedKeys) else rule.score.prepare_k(k)
        lift = rule.score.lift(rule.score.prepare_q(q), k)
        if lift is None:
            return None
        q, k, v = _alike(lift, v, len(batch))
        n = None if structure is None else structure.n
        return cls(
            q, k, v, lift.offset,
            bias=_four_axes(bias, problem),
            mask=_four_axes(allowed, problem),
            # No length is 0: such rows are overwritten, and kernels need not know of them.
            lengths=None if n is None else _per_row(jnp.clip(n, 1, problem.axes.s), batch),
            seeing=seeing,
            scale=lift.scale,
            causal=structure is not None and not structure.to_end,
            window=None if structure is None or structure.from_start else -structure.low,
        )  # fmt: skip

    def attend(self, implementation: Any) -> Array:
        """The averages of the values, `b t h c`."""
        q, k, v, bias, mask = self.q, self.k, self.v, self.bias, self.mask
        if implementation != "cudnn" and q.dtype == jnp.float16:
            # jax.nn asks XLA for a product that only GPUs have.
            q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
        if implementation == "cudnn":  # it broadcasts over batch and heads alone
            whole = self.q.shape[-3], self.k.shape[-3]
            bias, mask = (
                x if x is None else jnp.broadcast_to(x, (*x.shape[:2], *whole))
                for x in (bias, mask)
            )
        return jax.nn.dot_product_attention(
            q, k, v, bias, mask,
            scale=self.scale, is_causal=self.causal, key_value_seq_lengths=self.lengths,
            local_window_size=None if self.window is None else (self.window, 0),
            implementation=implementation,
        )  # fmt: skip

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


def _alike(lift: Lift, v: Array | None, batch: int) -> tuple[Array, Array, Array]:
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


def _per_row(n: Array, batch: tuple[int, ...]) -> Array:
    return jnp.broadcast_to(n, batch).reshape(-1).astype(jnp.int32)


def _cudnn_refuses(problem: Problem, operands: Any) -> str | None:
    """Why cuDNN cannot do it, exactly and in both directions; the last word is JAX's."""
    v = problem.v
    assert v is not None
    if problem.lse or problem.rule.normalizer.sink is not None:  # type: ignore[attr-defined]
        return (
            "cuDNN's log-sum-exp, which sinks need too, is rounded to the dtype of the keys and has no "
            'gradient; fused("xla") and blockwise keep both'
        )
    if operands.q.dtype not in (jnp.float16, jnp.bfloat16):
        return (
            f"cuDNN takes float16 or bfloat16: what scores.{problem.rule.score!r} makes of queries and "
            f"keys, together with v, is {operands.q.dtype} (v is {v.dtype}); blockwise takes any dtype"
        )
    if operands.bias is not None and operands.bias.dtype != operands.q.dtype:
        return (
            f"cuDNN would round the bias, {operands.bias.dtype}, to {operands.q.dtype}: give it in that "
            "dtype, or use blockwise"
        )

    def both_ways(operands: Operands) -> Any:
        def attend(q: Array, k: Array, v: Array) -> Array:
            return operands.replace(q=q, k=k, v=v).attend("cudnn")

        y, pull = jax.vjp(attend, operands.q, operands.k, operands.v)
        return pull(y)

    try:
        jax.eval_shape(both_ways, operands)
    except (NotImplementedError, RuntimeError, ValueError) as error:
        return f"JAX says of cuDNN: {error}"
    return None
