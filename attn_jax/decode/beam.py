"""Beam search with a length penalty, n-best lists and an exact rule for stopping."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from attn_jax.decode.hypotheses import (
    SPECIALS,
    Hypotheses,
    Specials,
    Step,
    checked_limits,
    checked_step,
    first_tokens,
    take,
    without,
)
from attn_jax.decode.top import top_k


@dataclass(frozen=True)
class Beam:
    r"""How a beam search is run.

    Finished hypotheses are ranked by :math:`\log P(y) / \mathrm{lp}(y) + \beta\, \mathrm{cp}(y)`, with
    the length penalty :math:`\mathrm{lp}(y) = ((5 + |y|) / 6)^\alpha`, where :math:`|y|` counts the end
    token, and the coverage penalty :math:`\mathrm{cp}(y) = \sum_j \log \min(\sum_i p_{ij}, 1)`, of how
    much all steps i looked at source token j.

    Args:
      size: how many hypotheses of a row are alive at a time.
      length_penalty: α; 0 ranks by log-probability alone, more favours longer sequences.
      best: how many finished hypotheses are returned, best first; the n of an n-best list.
      coverage_penalty: β; 0 asks nothing of the source, more favours what looks at all of it. The
        cache must then have a `coverage()`, cp of each hypothesis, as ``attn_jax.decode.coverage``
        makes one; :func:`translate` sees to that.

    Raises:
      ValueError: a number is out of its range.

    Reference: Wu et al. (2016), equation 14.
    """

    size: int = 4
    length_penalty: float = 0.6
    best: int = 1
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 1 or self.best < 1:
            raise ValueError(f"a beam needs size >= 1 and best >= 1, got {self}")
        if not 0 <= self.length_penalty <= 10:  # beyond, float32 cannot hold what it divides by
            raise ValueError(f"expected length_penalty from 0 to 10, got {self.length_penalty}")
        if not 0 <= self.coverage_penalty < float("inf"):
            raise ValueError(f"expected coverage_penalty >= 0, got {self.coverage_penalty}")


class _Alive(NamedTuple):
    """The unfinished hypotheses of a beam: `b k length`, `b k`, `b k`."""

    tokens: Array
    last: Array
    log_probabilities: Array


def beam(
    step: Step,
    cache: Any,
    limits: Array,
    options: Beam = Beam(),
    *,
    length: int,
    specials: Specials = SPECIALS,
    first: Array | None = None,
) -> Hypotheses:
    """Follows the `size` most probable unfinished sequences, and keeps the best that finished.

    At each step every live hypothesis is tried with an end token, and the `best` finished so far
    are kept. A row stops when none of its live hypotheses could enter that list any more, however
    it went on; stopping therefore never changes a result.

    Args:
      step, cache, limits, length, specials, first: as for :func:`greedy`, with `size` hypotheses
        of a row.
      options: size of the beam, length penalty, and how many hypotheses to return.

    Returns:
      `best` hypotheses a row, scores descending.

    Raises:
      ValueError: as for :func:`greedy`, or there is a coverage penalty and the cache knows no coverage.
    """
    if options.coverage_penalty and not hasattr(cache, "coverage"):
        raise ValueError(
            "a coverage penalty needs a cache that has `coverage()`, as that of"
            " attn_jax.decode.coverage.covering has"
        )
    limits = checked_limits(limits, length)
    rows, k, n = limits.shape[0], options.size, options.best

    def penalty(count: Array) -> Array:
        return ((5.0 + count) / 6.0) ** options.length_penalty

    def going(carry: tuple) -> Array:
        return ~jnp.all(carry[1])

    def body(carry: tuple) -> tuple:
        t, done, alive, found, cache = carry
        logits, cache = checked_step(step(alive.last, cache), alive.last)
        base = alive.log_probabilities - jax.nn.logsumexp(logits, axis=-1)

        ended = base + logits[..., specials.eos]
        whole = alive.tokens.at[:, :, t].set(specials.eos)
        lengths = jnp.full((rows, k), t + 1)
        scores = ended / penalty(t + 1)
        if options.coverage_penalty:
            scores = scores + options.coverage_penalty * cache.coverage()
        candidates = Hypotheses(whole, lengths, ended, scores)
        kept = _best(_join(found, candidates), n)
        found = jax.tree.map(lambda old, new: _where(done, old, new), found, kept)

        words = without(logits, specials.pad, specials.bos, specials.eos)
        values, ids = top_k(words, min(k, logits.shape[-1]))
        spread = (base[..., None] + values).reshape(rows, -1)
        best, flat = lax.top_k(spread, k)
        parents = flat // ids.shape[-1]
        last = take(ids.reshape(rows, -1), flat)
        tokens = take(alive.tokens, parents).at[:, :, t].set(last)

        # The best that any live hypothesis can come to: nothing more to pay, at the kindest length,
        # when all of the source has been looked at.
        hope = best[:, 0] / penalty(limits)
        done = done | (t + 1 >= limits) | (hope <= found.scores[:, n - 1])
        return t + 1, done, _Alive(tokens, last, best), found, cache.select(parents)

    blank = jnp.full((rows, max(k, n), length), specials.pad, jnp.int32)
    one = jnp.where(jnp.arange(k) == 0, 0.0, -jnp.inf).astype(jnp.float32)
    alive = _Alive(
        blank[:, :k],
        first_tokens(first, (rows, k), specials),
        jnp.broadcast_to(one, (rows, k)),
    )
    nothing = jnp.full((rows, n), -jnp.inf, jnp.float32)
    found = Hypotheses(blank[:, :n], jnp.zeros((rows, n), jnp.int32), nothing, nothing)
    start = (jnp.int32(0), jnp.zeros(rows, bool), alive, found, cache)
    return _blanked(lax.while_loop(going, body, start)[3], specials)


def _join(first: Hypotheses, second: Hypotheses) -> Hypotheses:
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), first, second)


def _best(candidates: Hypotheses, n: int) -> Hypotheses:
    _, indices = lax.top_k(candidates.scores, n)
    return jax.tree.map(lambda x: take(x, indices), candidates)


def _where(rows: Array, yes: Array, no: Array) -> Array:
    """Chooses between two arrays by row."""
    return jnp.where(rows.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def _blanked(found: Hypotheses, specials: Specials) -> Hypotheses:
    """Places that nothing possible came to hold are empty."""
    missing = found.scores == -jnp.inf
    return found._replace(
        tokens=jnp.where(missing[..., None], specials.pad, found.tokens),
        lengths=jnp.where(missing, 0, found.lengths),
    )
