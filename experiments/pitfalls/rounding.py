"""bfloat16 scores: 8 significant bits are too few for what the softmax exponentiates.

Between 16 and 32 neighbours in bfloat16 lie 1/8 apart, so that a score is up to 1/16 off and its weight
by a factor of up to e^(1/16); and a number added to all scores of a row, which changes no weight in the
real numbers, makes the steps as coarse as it is large. ``attend`` keeps scores in float32, whatever
dtype queries, keys and values have.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from attn_jax import Rule, attention_weights
from experiments.pitfalls.config import Config, Rounding
from experiments.results import Row


def to_bfloat16(s: jax.Array) -> jax.Array:
    """The nearest numbers that bfloat16 has: 8 bits of exponent, 7 of fraction."""
    return jax.lax.reduce_precision(s, 8, 7)


ROUNDED = Rule(transform=lambda s, i, j: to_bfloat16(s))


def raised(offset: float) -> Rule:
    """Scores of a row all raised alike, and then rounded."""
    return Rule(transform=lambda s, i, j: to_bfloat16(s + offset))


def draw(section: Rounding, size: float, seed: int) -> tuple[jax.Array, jax.Array]:
    """Queries and keys `t 1 d` whose largest score is of that size; themselves bfloat16."""
    q, k = jax.random.normal(jax.random.key(seed), (2, section.tokens, 1, section.depth))
    largest = jnp.abs(jnp.einsum("thd,shd->hts", q, k)).max() * section.depth**-0.5
    return (q * size / largest).astype(jnp.bfloat16), k.astype(jnp.bfloat16)


def exact(q: jax.Array, k: jax.Array) -> np.ndarray:
    """Their weights `h t s` in float64."""
    wide_q, wide_k = (np.asarray(x, np.float64) for x in (q, k))
    return softmax(np.einsum("thd,shd->hts", wide_q, wide_k) * q.shape[-1] ** -0.5, -1)


def errors(weights: jax.Array, true: np.ndarray) -> tuple[float, float]:
    """The largest relative error of a weight, and the mean share of a row that went astray."""
    wrong = np.abs(np.asarray(weights, np.float64) - true)
    return float((wrong / true).max()), float(wrong.sum(-1).mean() / 2)


def rounding(config: Config) -> list[Row]:
    """At each size: scores rounded, raised and rounded, and kept."""
    section, rows = config.rounding, list[Row]()
    for size in config.rounding.sizes:
        found = []
        for seed in config.seeds:
            q, k = draw(section, size, seed)
            one = draw(section, 1.0, seed)
            found.append(
                (
                    *errors(attention_weights(q, k, rule=ROUNDED), exact(q, k)),
                    errors(attention_weights(*one, rule=raised(size)), exact(*one))[0],
                    errors(attention_weights(q, k), exact(q, k))[0],
                )
            )
        rounded, astray, lifted, kept = map(float, np.mean(found, 0))
        rows.append(
            {
                "largest score": size,
                "bfloat16 scores": rounded,
                "share of a row astray": astray,
                "small ones raised so far": lifted,
                "float32 scores": kept,
            }
        )
    return rows
