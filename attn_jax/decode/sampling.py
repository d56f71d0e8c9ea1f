"""One token after another: the most probable, or one drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
class Sample:
    """How tokens are drawn: by temperature first, then from the top k, then from the top p.

    Args:
      temperature: divides the logits; below 1 sharpens, above 1 flattens.
      top_k: only the k most probable tokens are drawn; None draws from all.
      top_p: only the fewest tokens whose probabilities reach p are drawn, and the most probable
        always; None draws from all.
      size: how many sequences of each row are drawn.

    Raises:
      ValueError: a number is out of its range.

    References: top k: Fan et al. (2018); top p: Holtzman et al. (2020).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    size: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(
                f"expected a finite temperature > 0, got {self.temperature}; 0 is greedy search"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"expected top_k >= 1 or None, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"expected 0 < top_p <= 1 or None, got {self.top_p}")
        if self.size < 1:
            raise ValueError(f"expected size >= 1, got {self.size}")


def greedy(
    step: Step,
    cache: Any,
    limits: Array,
    *,
    length: int,
    specials: Specials = SPECIALS,
    first: Array | None = None,
) -> Hypotheses:
    r"""Takes the most probable token at each step, :math:`y_t = \arg\max_i z_{ti}`.

    Args:
      step: one decoding step; see the module.
      cache: what `step` reads and returns, for one hypothesis of each row.
      limits: `b` int32, the most tokens a row's hypothesis may have, its end token included; what
        is above `length` is cut to it, what is below 1 raised to it.
      length: the most tokens of any hypothesis; the static size of the result.
      specials: the ids that are not words.
      first: `b`, the token that is fed first in each row; the start token where None.

    Returns:
      One hypothesis a row; its score is its log-probability.

    Raises:
      ValueError: the limits are not one integer a row, `length` is below 1, or `step` does not
        return logits `b k v`.
    """

    def choose(logits: Array, t: Array) -> Array:
        return pick(logits, t, None, specials=specials)

    return _one_by_one(choose, step, cache, limits, 1, length, specials, first)


def sample(
    step: Step,
    cache: Any,
    limits: Array,
    rngs: Array,
    options: Sample = Sample(),
    *,
    length: int,
    specials: Specials = SPECIALS,
    first: Array | None = None,
) -> Hypotheses:
    r"""Draws `size` sequences of each row, each token from :math:`\mathrm{softmax}(z_t / \tau)`.

    The softmax is over the tokens that top k and top p leave.

    Args:
      step, cache, limits, length, specials, first: as for :func:`greedy`, with `size` hypotheses
        of a row.
      rngs: `b` typed keys, one a row, so that a row's draws are its own.
      options: the temperature τ, top k, top p and size.

    Returns:
      `size` hypotheses a row, in no order; scores are log-probabilities under the model as it is.

    Raises:
      ValueError: as for :func:`greedy`.
    """

    def draw(logits: Array, t: Array) -> Array:
        return pick(logits, t, options, rngs, specials=specials)

    return _one_by_one(draw, step, cache, limits, options.size, length, specials, first)


def pick(
    logits: Array,
    t: Array,
    options: Sample | None,
    rngs: Array | None = None,
    *,
    specials: Specials = SPECIALS,
) -> Array:
    """The token that follows each hypothesis: what searches take at each step.

    Args:
      logits: `b k v`.
      t: how many tokens were picked before; draws depend on it.
      options: how to draw; None takes the most probable.
      rngs: `b` typed keys, to draw with.
      specials: the ids that are not words, of which padding and start are never picked.

    Returns:
      `b k` int32.

    >>> pick(jnp.array([[[9.0, 8.0, 1.0, 3.0, 2.0]]]), 0, None)
    Array([[3]], dtype=int32)
    """
    logits = without(logits, *specials.never)
    if options is None:
        return top_k(logits, 1)[1][..., 0]
    return jax.vmap(lambda rng, row: _draw(jax.random.fold_in(rng, t), row, options))(rngs, logits)


def _one_by_one(
    choose: Callable[[Array, Array], Array],
    step: Step,
    cache: Any,
    limits: Array,
    k: int,
    length: int,
    specials: Specials,
    first: Array | None,
) -> Hypotheses:
    """Extends k independent hypotheses of each row by what `choose(logits: b k v, t)` picks."""
    limits = checked_limits(limits, length)
    shape = (limits.shape[0], k)

    def going(carry: tuple) -> Array:
        return ~jnp.all(carry[1])

    def body(carry: tuple) -> tuple:
        t, done, tokens, last, total, cache = carry
        logits, cache = checked_step(step(last, cache), last)
        picked = choose(logits, t)
        picked = jnp.where(t + 1 >= limits[:, None], specials.eos, picked)
        gained = jnp.take_along_axis(logits, picked[..., None], axis=-1)[..., 0]
        total = total + jnp.where(done, 0.0, gained - jax.nn.logsumexp(logits, axis=-1))
        tokens = tokens.at[:, :, t].set(jnp.where(done, specials.pad, picked))
        return t + 1, done | (picked == specials.eos), tokens, picked, total, cache

    start = (
        jnp.int32(0),
        jnp.zeros(shape, bool),
        jnp.full((*shape, length), specials.pad, jnp.int32),
        first_tokens(first, shape, specials),
        jnp.zeros(shape, jnp.float32),
        cache,
    )
    _, _, tokens, _, total, _ = lax.while_loop(going, body, start)
    ends = jnp.argmax(tokens == specials.eos, axis=-1).astype(jnp.int32)
    return Hypotheses(tokens, ends + 1, total, total)


def _draw(rng: Array, logits: Array, options: Sample) -> Array:
    """One token from each of `k v` logits."""
    logits = logits / options.temperature
    if options.top_k is None and options.top_p is None:
        return jax.random.categorical(rng, logits)
    size = logits.shape[-1]
    values, ids = top_k(logits, min(options.top_k or size, size))
    if options.top_p is not None:
        p = jax.nn.softmax(values, axis=-1)
        values = jnp.where(jnp.cumsum(p, axis=-1) - p < options.top_p, values, -jnp.inf)
    return take(ids, jax.random.categorical(rng, values)[:, None])[:, 0]
