"""What needs whole rows of weights, made of a few rows at a time: no more of them is in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attn_jax.backends.row_blocks import MOST_WEIGHTS, map_rows
from attn_jax.diagnostics import measures
from attn_jax.diagnostics.means import Mean, counting
from attn_jax.modules.watching import Look

Array = jax.Array
MOST_COMPARED = 1024  # queries by which heads are told apart, evenly spaced


class RowNumbers(NamedTuple):
    """What the rows of each head are like; each `h`."""

    positional: measures.PositionalWeights | None
    """None for two sequences."""

    future: Array | None
    """The most weight on keys after a query; None for two sequences."""

    divergence: Array
    """`h h`, bits; of more than 1,024 queries every so manyth is compared."""

    on: Mapping[str, Array]
    """The mean weight on the keys that were asked about, by name."""


def row_numbers(
    look: Look,
    real: Array | None = None,
    keys: Mapping[str, Array] | None = None,
    *,
    own: bool = True,
    most: int = MOST_WEIGHTS,
) -> RowNumbers:
    """The measures of weights, at any length.

    Args:
      look: of :func:`attn_jax.modules.capture`.
      real: which queries count, `*b t` or `*b h t`; all that look where None.
      keys: booleans `*b s` by name, as of padding or separators.
      own: whether queries and keys are of one sequence.
      most: weights in memory at a time.

    Raises:
      ValueError: of one sequence, but t ≠ s.

    >>> x = jax.random.normal(jax.random.key(0), (6, 2, 4))
    >>> from attn_jax import Rule, masks
    >>> look = Look(x, x, x, Rule(mask=masks.causal()), None, x)
    >>> row_numbers(look, most=24).future.tolist()
    [0.0, 0.0]
    """
    t, s = look.q.shape[-3], look.v.shape[-3]
    if own and t != s:
        raise ValueError(f"expected weights of a sequence on itself, t = s; got t = {t}, s = {s}")
    step = -(-t // MOST_COMPARED)

    def of(weights: Array, i: Array) -> dict[str, Any]:
        inside = None if real is None else jnp.take(real, i, axis=-1, mode="clip")
        counts = counting(weights.sum(-1) > 0, inside)
        found: dict[str, Any] = {
            "divergence": measures.divergence_mean(weights[..., ::step, :], counts[..., ::step]),
            "on": {name: measures.mean_on(weights, x, counts) for name, x in (keys or {}).items()},
        }
        if own:
            found["positional"] = measures.positional_means(weights, i, counts)
            found["future"] = measures.most_on_future(weights, i)
        return found

    found = map_rows(of, look.q, look.k, rule=look.rule, positions=look.positions, most=most)

    def value(mean: Mean) -> Array:
        return mean.joined().value

    return RowNumbers(
        positional=measures.PositionalWeights(*map(value, found["positional"])) if own else None,
        future=found["future"].max(0) if own else None,
        divergence=measures.between_heads(found["divergence"].joined()),
        on={name: value(mean) for name, mean in found["on"].items()},
    )


def grouped_weights(look: Look, groups: Array, number: int, *, most: int = MOST_WEIGHTS) -> Array:
    """Weights between groups of tokens: all that lies on the keys of one, mean over its queries.

    What can be shown of more tokens than fit a page; rows that sum to 1 still do.

    Args:
      look: of a sequence on itself.
      groups: of each token, `t` integers below `number`; none is empty.
      number: n, of groups.
      most: weights in memory at a time.

    Returns:
      `*b h n n`.

    >>> x = jnp.ones((4, 1, 2))
    >>> from attn_jax import Rule
    >>> grouped_weights(Look(x, x, x, Rule(), None, x), jnp.array([0, 1, 1, 1]), 2).tolist()
    [[[0.25, 0.75], [0.25, 0.75]]]
    """
    member = (jnp.asarray(groups)[:, None] == jnp.arange(number)).astype(jnp.float32)

    def of(weights: Array, i: Array) -> Array:
        return weights @ member

    rows = map_rows(of, look.q, look.k, rule=look.rule, positions=look.positions, most=most)
    rows = jnp.moveaxis(rows, 0, -3)
    rows = rows.reshape(*rows.shape[:-3], -1, number)[..., : len(member), :]
    return jnp.swapaxes(member / member.sum(0), 0, 1) @ rows
