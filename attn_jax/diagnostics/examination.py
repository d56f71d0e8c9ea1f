"""A model looked at on a few inputs: the numbers of every attention head, in one pass."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.backends.statistics import attention_stats
from attn_jax.diagnostics import measures
from attn_jax.diagnostics.means import counting
from attn_jax.diagnostics.rows import row_numbers
from attn_jax.functional.rule import Rule
from attn_jax.modules.watching import Look, capture, gated

Array = jax.Array


class Finite(NamedTuple):
    """Whether all of them are numbers, neither NaN nor infinite; each a boolean."""

    queries: Array
    keys: Array
    values: Array
    output: Array


class HeadNumbers(NamedTuple):
    """What the heads of one attention layer do on some inputs; a pytree of arrays, each `h`.

    Of queries that see more than one key, or of all where none of several does; NaN where none is left.
    """

    summary: measures.HeadSummary
    uniformity: Array
    """Entropy over that of looking evenly at all visible keys."""

    influence: Array
    r"""How much a head moves the output, :math:`|\partial f / \partial \xi_h|` of its gate ξ."""

    future: Array | None
    """The most weight on keys after a query; None for two sequences."""

    divergence: Array
    """`h h`, bits; of more than 1,024 queries every so manyth is compared."""

    positional: measures.PositionalWeights | None
    """The mean weight on neighbours and the first token; None for two sequences."""

    on: Mapping[str, Array]
    """The mean weight on the keys that were asked about, by name."""

    finite: Finite


def examine(
    call: Callable[..., Any],
    model: nnx.Module,
    *inputs: Any,
    real: Mapping[str, Array] | None = None,
    keys: Callable[[str], Mapping[str, Array]] | None = None,
    **options: Any,
) -> OrderedDict[str, HeadNumbers]:
    """The numbers of every attention head of a model on some inputs; a function that jit takes.

    Args:
      call: a function of the model and the inputs to arrays, as ``Transformer.__call__``.
      model: looked at; it stays as it is.
      real: which queries count, `*b t` booleans, by the beginning of the paths they are for, as
        ``{"encoder": source != 0, "decoder": labels != 0}``.
      keys: of a path, keys that weight may lie on, `*b s` booleans by name, as separators.

    Returns:
      By the path of the attention module, first to last, as of :func:`attn_jax.modules.capture`.

    >>> from attn_jax.modules import MultiHeadAttention
    >>> attention = MultiHeadAttention(8, 2, rngs=nnx.Rngs(0))
    >>> x = jax.random.normal(jax.random.key(0), (1, 5, 8))
    >>> numbers = examine(MultiHeadAttention.__call__, attention, x)[""]
    >>> numbers.uniformity.shape, bool((numbers.influence > 0).all())
    ((2,), True)
    """
    looks, influences = looks_and_influences(call, model, *inputs, **options)
    return OrderedDict(
        (path, head_numbers(path, seen, influences[path], counted(real, path), keys))
        for path, seen in looks.items()
    )


def looks_and_influences(
    call: Callable[..., Any], model: nnx.Module, *inputs: Any, **options: Any
) -> tuple[OrderedDict[str, Look], dict[str, Array]]:
    """What :func:`examine` takes numbers of, for who compiles these once for layers that are alike.

    Returns:
      Looks, as of :func:`attn_jax.modules.capture`; and by the same paths how much each head moves the
      outputs, `h`.
    """
    out, looks = capture(call, model, *inputs, **options)
    return looks, influence(_projected(call, out), model, looks, *inputs, **options)


def influence(
    f: Callable[..., Array],
    model: nnx.Module,
    looks: Mapping[str, Look],
    *inputs: Any,
    **options: Any,
) -> dict[str, Array]:
    r"""How much each head matters to a number, :math:`E_b |\partial f / \partial \xi_{bh}|`.

    ξ multiplies a head's output, so that this is its weights times their gradient, summed: with a loss
    for f, the importance by which heads are pruned.

    Args:
      f: a function of the model and the inputs to a scalar, a sum over batch rows, as a loss.
      model: whose heads.
      looks: of :func:`attn_jax.modules.capture` on the same inputs.

    Returns:
      By path, `h`.

    Reference: Michel, Levy and Neubig (2019), equation 2.
    """

    def weighted(gates: dict[str, Array]) -> Array:
        return gated(f, model, gates, *inputs, **options)

    ones = {
        path: jnp.ones((*x.y.shape[:-3], x.y.shape[-2]), x.y.dtype) for path, x in looks.items()
    }
    slopes = jax.grad(weighted)(ones)
    return {path: jnp.abs(x).mean(tuple(range(x.ndim - 1))) for path, x in slopes.items()}


def _projected(call: Callable[..., Any], out: Any) -> Callable[..., Array]:
    """The outputs along one random direction: what does not move it moves none of them."""
    leaves = [x for x in jax.tree.leaves(out) if jnp.issubdtype(x.dtype, jnp.floating)]
    directions = [
        jax.random.normal(jax.random.key(i), x.shape, x.dtype) for i, x in enumerate(leaves)
    ]

    def f(*arguments: Any, **options: Any) -> Array:
        out = jax.tree.leaves(call(*arguments, **options))
        moving = [x for x in out if jnp.issubdtype(x.dtype, jnp.floating)]
        return sum((jnp.vdot(u, x) for u, x in zip(directions, moving)), jnp.zeros(()))

    return f


def counted(real: Mapping[str, Array] | None, path: str) -> Array | None:
    """Which queries of a layer count: those of the longest beginning of its path, or None for all."""
    fitting = [prefix for prefix in real or {} if path.startswith(prefix)]
    return real[max(fitting, key=len)] if real and fitting else None


def head_numbers(
    path: str,
    look: Look,
    influence: Array,
    real: Array | None = None,
    keys: Callable[[str], Mapping[str, Array]] | None = None,
) -> HeadNumbers:
    """The numbers of the heads of one layer.

    Args:
      path: of the layer; where "cross" is in it, queries and keys are of two sequences.
      look: what it was asked.
      influence: of each head, `h`; NaN where nobody knows.
      real, keys: as of :func:`examine`; `real` of this layer, `*b t`.
    """
    stats = look.stats()
    t, s = look.q.shape[-3], look.v.shape[-3]
    evenly = _evenly(look)
    seeing = counting(stats.max_score > -jnp.inf, real)
    choosing = seeing & (evenly > 1e-3)  # a query that sees one key alone has nothing to choose
    if t > 1:  # but where that is all of them, it is the mask that says so
        every = tuple(i for i in range(choosing.ndim) if i != choosing.ndim - 2)
        choosing = choosing | (seeing & ~choosing.any(every)[:, None])
    own = t == s and "cross" not in path
    rows = row_numbers(look, choosing, keys and keys(path), own=own)
    return HeadNumbers(
        summary=measures.summary(stats, choosing),
        uniformity=_share(stats.entropy, evenly, choosing),
        influence=influence,
        future=rows.future,
        divergence=rows.divergence,
        positional=rows.positional,
        on=rows.on,
        finite=_finite(look, real),
    )


def _evenly(look: Look) -> Array:
    """The entropy of looking at all visible keys evenly: the log of their number, `*b h t`."""
    nothing = [jnp.zeros((*x.shape[:-1], 1), jnp.float32) for x in (look.q, look.k)]
    rule = Rule(mask=look.rule.mask)
    return attention_stats(*nothing, rule=rule, positions=look.positions).entropy


def _share(part: Array, whole: Array, counts: Array) -> Array:
    every = tuple(i for i in range(part.ndim) if i != part.ndim - 2)
    most = jnp.where(counts, whole, 0).sum(every)
    reached = jnp.where(counts, part, 0).sum(every)
    return jnp.where(most > 0, reached / jnp.where(most > 0, most, 1), jnp.nan)


def _finite(look: Look, real: Array | None) -> Finite:
    y = look.y if real is None else jnp.where(real[..., None, None], look.y, 0)

    def all_of(part: Any) -> Array:
        return jnp.array([jnp.isfinite(x).all() for x in jax.tree.leaves(part)]).all()

    return Finite(all_of(look.q), all_of(look.k), all_of(look.v), all_of(y))
