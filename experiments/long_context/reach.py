"""How far a mechanism reaches: a question at the end, and its answer at a known distance before it.

One token of a sequence is marked; what it says is to be told at the last position. A layer carries it
from a key to a query that may look there, and no further: so `reaches` tells from the mask alone, before
any training, at which distances so many layers can find the answer.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attn_jax import Rule, attend, masks
from experiments.descent import descend, normal
from experiments.long_context.config import Config, Reach
from experiments.long_context.mechanisms import Mechanism, mechanisms
from experiments.results import Row


class Found(NamedTuple):
    """Of a mechanism and so many layers."""

    reaches: np.ndarray
    """`distances`, whether the mask leads there."""

    accuracy: np.ndarray
    """`seeds distances`."""


class Sequences(NamedTuple):
    """Of which one token is marked, and the last is the question."""

    tokens: jax.Array
    """`… n`."""

    answers: jax.Array
    """`…`."""


def sequences(section: Reach, distance: jax.Array, rng: jax.Array) -> Sequences:
    """One for each distance from the question back to the marked token."""
    n, c = section.length, section.classes
    said = jax.random.randint(rng, (*distance.shape, n), 0, c)
    marked = jnp.arange(n) == n - 1 - distance[..., None]
    tokens = (said + c * marked).at[..., -1].set(2 * c)
    return Sequences(tokens, (said * marked).sum(-1))


def drawn(section: Reach, seed: int) -> tuple[Sequences, Sequences]:
    """What every mechanism is trained with, `steps b`, and tested with, `distances tests`."""
    places, training, tests = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), 3)
    anywhere = jax.random.randint(places, (section.steps, section.batch), 1, section.length)
    at = jnp.array(section.distances)[:, None].repeat(section.tests, 1)
    return sequences(section, anywhere, training), sequences(section, at, tests)


def begin(section: Reach, layers: int, seed: int) -> dict[str, jax.Array]:
    """Embeddings of tokens, layers, and a projection to logits."""
    m, c = section.width, section.classes
    rngs = jax.random.split(jax.random.key(seed), 4)
    return {
        "tokens": 0.3 * jax.random.normal(rngs[0], (2 * c + 1, m)),
        "attention": normal(rngs[1], layers, 4, m, m),
        "hidden": normal(rngs[2], layers, 2, m, m),
        "logits": normal(rngs[3], m, c),
    }


def model(weights: Any, mechanism: Mechanism, tokens: jax.Array) -> jax.Array:
    """Tokens `*b n` to logits of the last position, `*b c`."""
    x = weights["tokens"][tokens]
    rule, backend = mechanism
    for layer, (into, out) in zip(weights["attention"], weights["hidden"]):
        q, k, v = (x[..., None, :] @ w for w in layer[:3])
        x = x + attend(q, k, v, rule=rule, backend=backend)[..., 0, :] @ layer[3]
        x = x + jax.nn.gelu(x @ into) @ out
    return x[..., -1, :] @ weights["logits"]


@functools.partial(jax.jit, static_argnames=("backend", "rate"))
@functools.partial(jax.vmap, in_axes=(None, None, None, 0, 0, 0))
def learn(
    rule: Rule, backend: str, rate: float, start: Any, training: Sequences, tests: Sequences
) -> jax.Array:
    """The accuracy at each distance after training at all of them, for each seed."""

    def loss(weights: Any, i: Any) -> jax.Array:
        tokens, answers = training.tokens[i], training.answers[i]
        logits = model(weights, Mechanism(rule, backend), tokens)
        return optax.softmax_cross_entropy_with_integer_labels(logits, answers).mean()

    weights, _ = descend(loss, start, optax.adam(rate), len(training.tokens), lambda w, i: ())
    answers = model(weights, Mechanism(rule, backend), tests.tokens).argmax(-1)
    return (answers == tests.answers).mean(-1)


def seen(mechanism: Mechanism, n: int) -> np.ndarray:
    """Which of n keys each query may look at, `n n`."""
    return np.broadcast_to(np.asarray(mechanism.rule.mask.dense(n, n)), (1, n, n))[0]


def reaches(mask: np.ndarray, layers: int) -> np.ndarray:
    """Whether so many layers lead from the last position to one so far before: `n`, from 0."""
    step = mask | np.eye(len(mask), dtype=bool)
    reached = np.arange(len(mask)) == len(mask) - 1
    for _ in range(layers):
        reached = reached @ step
    return reached[::-1]


def reach(config: Config) -> tuple[list[Row], dict[tuple[str, int], Found]]:
    """The accuracy of each mechanism, by layers, at each distance.

    Masks are given as arrays, so that one program serves them all; blockwise is dense by other means,
    and is left out.
    """
    section, n, rows, found = config.reach, config.reach.length, list[Row](), {}
    stack = functools.partial(jax.tree.map, lambda *each: jnp.stack(each))
    data = stack(*[drawn(section, seed) for seed in config.seeds])
    given = mechanisms(n, section.window, section.width, section.features)
    for layers in section.layers:
        start = stack(*[begin(section, layers, seed) for seed in config.seeds])
        for name, mechanism in given.items():
            if name == "blockwise":
                continue
            mask, (rule, backend) = seen(mechanism, n), mechanism
            if backend == "blockwise" or name == "dense":
                rule, backend = Rule(mask=masks.explicit(mask)), "dense"
            accuracy = np.asarray(learn(rule, backend, section.rate, start, *data))
            found[name, layers] = Found(reaches(mask, layers)[list(section.distances)], accuracy)
            at = zip(section.distances, accuracy.mean(0).tolist())
            accuracies = {f"at {distance}": mean for distance, mean in at}
            rows.append({"mechanism": name, "layers": layers, **accuracies})
    return rows, found
