"""The saturated softmax: scores of variance d leave it no slope to learn by.

A query is a rotated, noisy copy of one of the keys, and asks for that key's value. The error is that
of the value, so that it reaches the scores through the softmax alone. Dividing by √d mends it; so does
comparing directions, ``scores.cosine``.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attn_jax import Rule, attend, scores
from experiments.descent import descend, normal
from experiments.pitfalls.config import Config, Saturation
from experiments.results import Row

SCORES: dict[str, scores.Score] = {
    "dot": scores.dot(),
    "scaled dot": scores.scaled_dot(),
    "cosine, τ = 0.1": scores.cosine(jnp.float32(0.1)),
}


def task(section: Saturation, rng: jax.Array) -> tuple[jax.Array, ...]:
    """Queries `b 1 1 d`, keys `b s 1 d`, values `b s 1 4`, and the values asked for, `b 1 1 4`."""
    keys, choice, noise, values = jax.random.split(rng, 4)
    b, s, d = section.batch, section.keys, section.depth
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0].astype(np.float32)
    k, v = jax.random.normal(keys, (b, s, 1, d)), jax.random.normal(values, (b, s, 1, 4))
    asked = jnp.arange(b), jax.random.randint(choice, (b,), 0, s)
    q = k[asked] @ rotation
    return (q + section.noise * jax.random.normal(noise, q.shape))[:, None], k, v, v[asked][:, None]


def learn(score: scores.Score, section: Saturation, rate: Any, seed: Any) -> jax.Array:
    """The squared error before each step."""
    rng = jax.random.key(seed)

    def loss(weights: jax.Array, i: Any) -> jax.Array:
        q, k, v, y = task(section, jax.random.fold_in(rng, 1 + i))
        fetched = attend(q @ weights[0], k @ weights[1], v, rule=Rule(score))
        return jnp.square(fetched - y).mean()

    weights = normal(jax.random.fold_in(rng, 0), 2, section.depth, section.depth)
    return descend(loss, weights, optax.adam(rate), section.steps, lambda w, i: loss(w, i + 1))[1]


def saturation(config: Config) -> tuple[list[Row], dict[str, np.ndarray]]:
    """The error of each score at its best rate, a third of the way and at the end; and all of its
    errors, `seeds steps`."""
    section, rows, ways = config.saturation, list[Row](), {}
    for name, score in SCORES.items():
        by_rate = jax.vmap(functools.partial(learn, score, section), (0, None))
        every = jax.jit(jax.vmap(by_rate, (None, 0), 1))(
            np.array(section.rates), np.array(config.seeds)
        )
        last = section.steps - max(section.steps // 10, 1)
        best = int(every[..., last:].mean((1, 2)).argmin())
        ways[name] = np.asarray(every[best])
        way = ways[name].mean(0)
        rows.append(
            {
                "score": name,
                "best rate": section.rates[best],
                "error after a third": float(
                    way[section.steps // 3 :][: section.steps - last].mean()
                ),
                "error at the end": float(way[last:].mean()),
            }
        )
    return rows, ways
