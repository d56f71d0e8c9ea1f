"""Kernels that know only inner products: jax.nn's, by XLA or by cuDNN, and splash attention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.backends import splash
from attn_jax.backends.backend import Backend
from attn_jax.backends.dense import dense
from attn_jax.backends.fused_operands import Operands
from attn_jax.backends.problem import Problem
from attn_jax.backends.structure import structure_of
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.value import Array


class fused(Backend):
    """``jax.nn.dot_product_attention``, for any score that is an inner product in disguise.

    A score lends its ``lift``. Causal masks, windows before the query and lengths are told to the
    kernel; any other mask, and a bias, is an array of t × s. XLA's implementation keeps all scores in
    memory and has every derivative. cuDNN's takes O(t + s) memory, float16 or bfloat16, and can be
    differentiated once, in reverse; it is refused where it would round what other backends keep in
    float32 (prepared queries, biases, log-sum-exps). "splash" is JAX's kernel for TPUs, for bands and
    lengths, in O(t + s) memory, differentiable once, in reverse; on other platforms it is interpreted,
    slowly.

    Args:
      implementation: "xla", "cudnn", "splash", or None: in a program lowered for CUDA cuDNN where it can
        without an array of t × s, and otherwise what JAX chooses.

    Raises:
      ValueError: another implementation.

    >>> fused("xla")
    fused('xla')
    """

    implementation: str | None = None

    def __post_init__(self) -> None:
        if self.implementation not in (None, "xla", "cudnn", "splash"):
            raise ValueError(
                'fused(implementation) must be None, "xla", "cudnn" or "splash", got '
                f"{self.implementation!r}"
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
        if self.implementation == "splash":
            return splash.refuses(problem)
        return _cudnn_refuses(problem, operands) if self.implementation == "cudnn" else None

    def suits(self, problem: Problem) -> bool:
        # A kernel written for the GPU passes over the scores once, in the fast memory of a
        # multiprocessor, which XLA's loop over tiles does not. On CPU there is none, and jax.nn takes
        # 3.5 times as long as blockwise (causal, n = 4096).
        return (
            jax.default_backend() == "gpu"
            and not self.refuses(problem)
            and self._takes_cudnn(problem)
        )

    def cost(self, problem: Problem) -> str:
        _, _, t, s = problem.axes
        if self.implementation == "splash":
            return "splash: no scores in memory"
        if not self._takes_cudnn(problem):
            return f"jax.nn: all {t} × {s} scores of each head in memory"
        told = jax.eval_shape(lambda: Operands.of(problem)).told_by_name
        return f"cuDNN: {'no scores' if told else f'a mask of {t} × {s} for each head'} in memory"

    def _takes_cudnn(self, problem: Problem) -> bool:
        if self.implementation is not None:
            return self.implementation == "cudnn"
        operands = jax.eval_shape(lambda: Operands.of(problem))
        return operands.told_by_name and not _cudnn_refuses(problem, operands)

    def attend(self, problem: Problem) -> Array:
        if 0 in (problem.axes.t, problem.axes.s):
            return dense().attend(problem)  # no score at all
        if problem.rule.normalizer.sink is not None:  # type: ignore[attr-defined]
            return self.attend_with_lse(problem)[0]
        if self.implementation == "splash":
            structure = structure_of(problem)
            assert structure is not None
            return _shaped(
                problem, splash.attend(problem, structure), structure.seeing()[..., None]
            )
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
        return _shaped(problem, y, operands.seeing)


def _shaped(problem: Problem, y: Array, seeing: Array | None) -> Array:
    """What a kernel gave, `b t h c`, as `*b t h e`: zeros where it averaged what is hidden."""
    axes, v = problem.axes, problem.v
    assert v is not None
    y = y[..., : v.shape[-1]].reshape(*axes.batch, axes.t, axes.h, v.shape[-1])
    return (y if seeing is None else jnp.where(seeing[..., None], y, 0)).astype(v.dtype)


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
