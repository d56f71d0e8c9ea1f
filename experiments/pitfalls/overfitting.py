"""Overfitting: few examples learned by heart, and what dropout on weights and weight decay do to it.

Tokens of two classes differ by a shift that is small beside their noise; a query of its own looks at
all of them, and a feed-forward network decides. The training loss falls to 0 whatever is done; the
test loss first falls and then rises.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attn_jax import Dropout, attend
from experiments.descent import descend, normal
from experiments.pitfalls.config import Config, Overfitting
from experiments.results import Row

HEADS = 2


def examples(section: Overfitting, shift: jax.Array, n: int, rng: jax.Array) -> Any:
    """Tokens `n t m` and classes `n`, 0 or 1."""
    noise, classes = jax.random.split(rng)
    y = jax.random.bernoulli(classes, shape=(n,)).astype(jnp.float32)
    x = jax.random.normal(noise, (n, section.tokens, section.width))
    return x + (y - 0.5)[:, None, None] * shift, y


def begin(section: Overfitting, rng: jax.Array) -> dict[str, jax.Array]:
    """The parameters: a query, projections of keys and values, and a feed-forward network."""
    m, f = section.width, section.hidden
    shapes = {"query": (1, 2 * m), "key": (m, 2 * m), "value": (m, 2 * m)}
    shapes |= {"in": (2 * m, f), "out": (f, 1)}
    rngs = jax.random.split(rng, len(shapes))
    return {name: normal(r, *shape) for r, (name, shape) in zip(rngs, shapes.items())}


def logits(weights: Any, x: jax.Array, dropout: Dropout | None = None) -> jax.Array:
    """What speaks for class 1 in tokens `n t m`: `n`."""
    query = jnp.broadcast_to(weights["query"], (len(x), 1, weights["query"].shape[-1]))
    q, k, v = (
        a.reshape(*a.shape[:-1], HEADS, -1)
        for a in (query, x @ weights["key"], x @ weights["value"])
    )
    y = attend(q, k, v, dropout=dropout).reshape(len(x), -1)
    return (jax.nn.gelu(y @ weights["in"]) @ weights["out"])[:, 0]


def loss(weights: Any, data: Any, dropout: Dropout | None = None) -> jax.Array:
    """Mean cross-entropy, nats."""
    x, y = data
    return optax.sigmoid_binary_cross_entropy(logits(weights, x, dropout), y).mean()


def learn(section: Overfitting, dropout: float, decay: Any, seed: Any) -> dict[str, jax.Array]:
    """Losses after each step, of training and of tests, and the accuracy of tests at the end."""
    rng = jax.random.split(jax.random.key(seed), 5)
    direction = jax.random.normal(rng[0], (section.width,))
    shift = 2 * section.signal * direction / jnp.linalg.norm(direction)
    train = examples(section, shift, section.examples, rng[1])
    test = examples(section, shift, section.tests, rng[2])

    def noisy(weights: Any, i: Any) -> jax.Array:
        drawn = Dropout(dropout, jax.random.fold_in(rng[4], i)) if dropout else None
        return loss(weights, train, drawn)

    def watch(weights: Any, i: Any) -> tuple[jax.Array, jax.Array]:
        return loss(weights, train), loss(weights, test)

    adamw = optax.adamw(section.rate, weight_decay=decay)
    start = begin(section, rng[3])
    weights, (training, testing) = descend(noisy, start, adamw, section.steps, watch)
    right = (logits(weights, test[0]) > 0) == (test[1] > 0)
    return {"training": training, "test": testing, "accuracy": right.mean()}


def overfitting(config: Config) -> tuple[list[Row], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Neither, either and both; and the losses of training and of tests, `seeds steps` each."""
    section, rows, ways = config.overfitting, list[Row](), {}
    decays = {"": 0.0, "weight decay": section.decay}
    for dropout in (0.0, section.dropout):
        by_seed = jax.vmap(functools.partial(learn, section, dropout), (None, 0))
        found = jax.jit(jax.vmap(by_seed, (0, None)))(
            np.array(list(decays.values())), np.array(config.seeds)
        )
        for i, decay in enumerate(decays):
            name = " and ".join(filter(None, ["dropout" if dropout else "", decay])) or "neither"
            training, testing = (np.asarray(found[which][i]) for which in ("training", "test"))
            ways[name] = training, testing
            rows.append(
                {
                    "mended by": name,
                    "training loss": float(training[:, -1].mean()),
                    "test loss": float(testing[:, -1].mean()),
                    "least test loss": float(testing.min(1).mean()),
                    "after step": float(1 + testing.argmin(1).mean()),
                    "test accuracy": float(found["accuracy"][i].mean()),
                }
            )
    return rows, ways
