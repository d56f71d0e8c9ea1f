"""What attention weights are like, in numbers: pure functions of weights or of streamed statistics.

At lengths where weights do not fit, `rows.row_numbers` makes the same of a few queries at a time.

Weights are `*b h t s`, as of ``attention_weights``. `real` says which queries count, booleans `*b t`, or
`*b h t`; where it is left out, those that look at something. Means are over batch rows and queries.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from attn_jax.backends.statistics import AttentionStats
from attn_jax.diagnostics.means import Mean, counting, over_queries

Array = jax.Array

SATURATED_SCORE = 30.0
CERTAIN_WEIGHT = 0.99


class HeadSummary(NamedTuple):
    """What the queries of each head are like; each `h`, NaN for a head of which no query counts."""

    entropy: Array
    """Mean of Σ −w log w, nats."""

    max_score: Array
    """Highest score of all."""

    saturated: Array
    """Share of queries with a score over 30: its softmax has no gradient left in float32."""

    certain: Array
    """Share of queries that put more than 0.99 on one key."""

    self_weight: Array
    """Mean weight on the query's own position."""

    distance: Array
    """Mean of Σ w |i − j|, positions."""


def summary(stats: AttentionStats, real: Array | None = None) -> HeadSummary:
    """Statistics of queries as one number for each head.

    Args:
      stats: of ``attention_stats``, streamed at any length; each `*b h t`.
      real: which queries count, `*b t`.

    >>> import attn_jax
    >>> x = jnp.zeros((4, 2, 8))
    >>> summary(attn_jax.attention_stats(x, x)).self_weight
    Array([0.25, 0.25], dtype=float32)
    """
    counts = counting(stats.max_score > -jnp.inf, real)

    def mean(x: Array) -> Array:
        return over_queries(jnp.asarray(x, stats.entropy.dtype), counts).value

    every = tuple(i for i in range(counts.ndim) if i != counts.ndim - 2)
    highest = jnp.where(counts, stats.max_score, -jnp.inf).max(every)
    return HeadSummary(
        entropy=mean(stats.entropy),
        max_score=jnp.where(counts.any(every), highest, jnp.nan),
        saturated=mean(stats.max_score > SATURATED_SCORE),
        certain=mean(stats.max_weight > CERTAIN_WEIGHT),
        self_weight=mean(stats.self_weight),
        distance=mean(stats.distance),
    )


class PositionalWeights(NamedTuple):
    """Mean weight of each head on keys that stand somewhere by their position alone; each `h`."""

    previous: Array
    itself: Array
    next: Array
    first: Array


def positional(weights: Array, real: Array | None = None) -> PositionalWeights:
    """How much each head looks at the token before, itself, the token after, and the first.

    A query without such a neighbour does not count. Queries and keys are those of one sequence.

    Args:
      weights: `*b h t t`.
      real: `*b t`.

    Raises:
      ValueError: queries and keys differ in number.

    Reference: Voita et al. (2019), section 5.2.1: a head is positional where this is at least 0.9.

    >>> positional(jnp.eye(3, k=-1)[None]).previous
    Array([1.], dtype=float32)
    """
    t, s = weights.shape[-2:]
    if t != s:
        raise ValueError(f"expected weights of a sequence on itself, t = s; got t = {t}, s = {s}")
    means = positional_means(weights, jnp.arange(t), counting(weights.sum(-1) > 0, real))
    return PositionalWeights(*(mean.value for mean in means))


def positional_means(weights: Array, i: Array, counts: Array) -> list[Mean]:
    """What :func:`positional` divides, of some queries.

    Args:
      weights: `*b h n s`, of a sequence on itself.
      i: which queries they are of, `n`.
      counts: whether they count, `*b h n`.
    """
    s = weights.shape[-1]

    def at(keys: Array) -> Mean:
        there = (keys >= 0) & (keys < s)
        where = jnp.clip(keys, 0, max(s - 1, 0))[:, None]
        chosen = jnp.take_along_axis(weights, jnp.broadcast_to(where, (*weights.shape[:-1], 1)), -1)
        return over_queries(chosen[..., 0], counts & there)

    return [at(i - 1), at(i), at(i + 1), at(0 * i)]


def weight_on(weights: Array, keys: Array, real: Array | None = None) -> Array:
    """Mean weight of each head on some keys, as on padding, or on separators: `h`.

    Args:
      weights: `*b h t s`.
      keys: booleans, `*b s`.
      real: `*b t`.

    >>> weight_on(jnp.full((1, 2, 4), 0.25), jnp.array([True, False, False, False]))
    Array([0.25], dtype=float32)
    """
    return mean_on(weights, keys, counting(weights.sum(-1) > 0, real)).value


def mean_on(weights: Array, keys: Array, counts: Array) -> Mean:
    """What :func:`weight_on` divides; `counts`, `*b h t`, says which queries count."""
    on = jnp.einsum("...hts,...s->...ht", weights, jnp.asarray(keys, weights.dtype))
    return over_queries(on, counts)


def weight_on_future(weights: Array) -> Array:
    """The most weight that a query of each head puts on keys after it: `h`; 0 where all is causal.

    >>> weight_on_future(jnp.full((1, 2, 2), 0.5))
    Array([0.5], dtype=float32)
    """
    return most_on_future(weights, jnp.arange(weights.shape[-2]))


def most_on_future(weights: Array, i: Array) -> Array:
    """The same of some queries, `*b h n s`, that are number i, `n`, of a sequence."""
    ahead = jnp.where(jnp.arange(weights.shape[-1]) > i[:, None], weights, 0).sum(-1)
    return ahead.max(tuple(axis for axis in range(ahead.ndim) if axis != ahead.ndim - 2), initial=0)


def divergence(weights: Array, real: Array | None = None) -> Array:
    r"""Mean Jensen-Shannon divergence between heads, `h h`, in bits: 0 for the same, at most 1.

    .. math:: \mathrm{JS}(p, q) = H\big(\tfrac{p + q}{2}\big) - \tfrac12 H(p) - \tfrac12 H(q)

    Args:
      weights: `*b h t s`, rows that sum to 1 (a row of zeros does not count).
      real: `*b t`.

    Reference: Lin (1991), equation 4.1; between attention heads: Clark et al. (2019), section 6.

    >>> divergence(jnp.stack([jnp.eye(2), jnp.eye(2)[::-1]]))
    Array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    return between_heads(divergence_mean(weights, counting(weights.sum(-1) > 0, real)))


def divergence_mean(weights: Array, counts: Array) -> Mean:
    """What :func:`divergence` divides, `h h`; `counts`, `*b h t`, says which queries count."""
    alone = _bits(weights)

    def to_all(head: Array) -> Mean:
        one = jnp.take(weights, head, axis=-3)[..., None, :, :]
        half = jnp.take(alone, head, axis=-2)[..., None, :]
        both = counts & jnp.take(counts, head, axis=-2)[..., None, :]
        return over_queries(_bits((weights + one) / 2) - (alone + half) / 2, both)

    return jax.lax.map(to_all, jnp.arange(weights.shape[-3]))


def between_heads(mean: Mean) -> Array:
    """Divergences `h h` from their mean: not below 0, and 0 of a head from itself."""
    apart = mean.value
    return jnp.maximum(apart, 0) * (1 - np.eye(len(apart), dtype=apart.dtype))


def alike(divergences: ArrayLike, below: float = 0.05) -> list[list[int]]:
    """Groups of heads, of two and more, that all do the same.

    Args:
      divergences: `h h`, of :func:`divergence`.
      below: how far apart, in bits, any two of a group may be (complete linkage).

    >>> alike(np.array([[0, 0.01, 0.9], [0.01, 0, 0.9], [0.9, 0.9, 0]]))
    [[0, 1]]
    """
    # A quarter of a second to import, which a run that judges no heads need not wait for.
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    apart = np.nan_to_num(np.asarray(divergences, np.float64), nan=1.0)
    if len(apart) < 2:
        return []
    apart = (apart + apart.T) / 2
    np.fill_diagonal(apart, 0)
    tree = linkage(squareform(apart, checks=False), "complete")
    group = fcluster(tree, below, "distance")
    groups = [np.flatnonzero(group == g).tolist() for g in np.unique(group)]
    return sorted(g for g in groups if len(g) > 1)


def _bits(p: Array) -> Array:
    some = p > 0
    return jnp.where(some, -p * jnp.log2(jnp.where(some, p, 1)), 0).sum(-1)
