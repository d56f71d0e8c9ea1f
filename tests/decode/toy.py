"""Models small enough to search exhaustively."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class ToyCache(NamedTuple):
    """Everything a hypothesis has been fed, so that a wrong `select` shows in the logits."""

    history: Array  # b k length
    tables: Array  # b buckets v: what each row's model is
    t: Array

    def select(self, parents: Array) -> "ToyCache":
        taken = jax.vmap(lambda row, chosen: row[chosen])(self.history, parents)
        return self._replace(history=taken)


def start(tables: Array, size: int, length: int) -> ToyCache:
    history = jnp.zeros((len(tables), size, length), jnp.int32)
    return ToyCache(history, jnp.asarray(tables, jnp.float32), jnp.int32(0))


def step(tokens: Array, cache: ToyCache) -> tuple[Array, ToyCache]:
    """The logits are the row of the table that a hash of the whole history points at."""
    history = cache.history.at[:, :, cache.t].set(tokens)
    weights = 7 ** jnp.arange(history.shape[-1], dtype=jnp.int32)
    places = (history * weights).sum(-1) % cache.tables.shape[1]
    logits = jax.vmap(lambda table, place: table[place])(cache.tables, places)
    return logits, cache._replace(history=history, t=cache.t + 1)


def log_probability(table: np.ndarray, tokens: tuple[int, ...]) -> float:
    """What the model of one row says of a whole sequence, in float64."""
    place, total = 1, 0.0  # the start token, 1, at weight 1
    for i, token in enumerate(tokens):
        logits = table[place % len(table)].astype(np.float64)
        total += logits[token] - np.log(np.exp(logits).sum())
        place += token * 7 ** (i + 1)
    return float(total)


def every_sequence(vocabulary: int, limit: int) -> list[tuple[int, ...]]:
    """All that end with the token 2 within the limit and hold no 0, 1 or 2 before."""
    words = range(3, vocabulary)
    return [(*body, 2) for n in range(limit) for body in itertools.product(words, repeat=n)]
