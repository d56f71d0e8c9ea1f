"""What a score does to the softmax that follows it, and to what can be learned through both.

Queries and keys whose entries have variance 1 have inner products of variance d. Divided by √d they have
variance 1 at every depth, and the softmax stays where it has a slope.
"""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attn_jax import Rule, attend, attention_stats, normalizers, scores
from experiments.results import Row
from experiments.scoring.config import Config, Learning, Start

DOTS = {"dot": scores.dot(), "scaled dot": scores.scaled_dot()}
BIASED = "additive, with bias"
MECHANISMS = (*DOTS, "additive", BIASED)


def slope(row: jax.Array) -> jax.Array:
    """Size of the softmax's derivative at scores `s`: the Frobenius norm of its Jacobian."""
    jacobian = jax.jacobian(normalizers.softmax().weights)(row)
    largest = jnp.abs(jacobian).max()  # its square would be too small for float32
    return largest * jnp.linalg.norm(jacobian / jnp.maximum(largest, 1e-37))


@jax.jit
def describe(score: scores.Score, q: jax.Array, k: jax.Array) -> dict[str, jax.Array]:
    """Of queries `t h d` and keys `s h d`: what their scores and weights are like."""
    pairs = score.pair(score.prepare_q(q), score.prepare_k(k))
    stats = attention_stats(q, k, rule=Rule(score))
    return {
        "variance": pairs.var(),
        "highest": stats.max_score.max(),
        "entropy": stats.entropy.mean(),
        "slope": jax.vmap(slope)(pairs.reshape(-1, pairs.shape[-1])).mean(),
    }


def over_depths(config: Config) -> list[Row]:
    """Dot and scaled dot products at every depth."""
    n, rows = config.depths.keys, list[Row]()
    for depth in config.depths.depths:
        for name, score in DOTS.items():

            def one(seed: int, score: Any = score, depth: int = depth) -> dict[str, jax.Array]:
                q, k = jax.random.normal(jax.random.key(seed), (2, n, 1, depth))
                return describe(score, q, k)

            rows.append({"score": name, "d": depth, **_mean(map(one, config.seeds))})
    return rows


def saturation(config: Config) -> list[Row]:
    """One score above all others: the weight it gets, and the slope that is left."""
    distances = np.arange(0, config.saturation.highest + 1)
    s = config.saturation.keys

    @jax.jit
    @jax.vmap
    def at(distance: jax.Array) -> tuple[jax.Array, jax.Array]:
        row = jnp.zeros(s).at[0].set(distance)
        return normalizers.softmax().weights(row)[0], slope(row)

    weights, slopes = at(distances.astype(np.float32))
    return [
        {"score above the others": int(x), "weight": float(w), "slope": float(g)}
        for x, w, g in zip(distances, weights, slopes)
    ]


def begin(name: str, depth: int, hidden: int, rng: jax.Array) -> tuple[jax.Array, ...]:
    """Parameters that Adam is to learn: projections of queries and keys, and additive's v."""
    if name in DOTS:
        return tuple(jax.random.normal(rng, (2, depth, depth)) * depth**-0.5)
    widths = {"w_q": (depth, hidden), "w_k": (depth + (name == BIASED), hidden), "v": (hidden,)}
    rngs = jax.random.split(rng, 3)
    return tuple(
        jax.random.normal(r, shape) * shape[0] ** -0.5 for r, shape in zip(rngs, widths.values())
    )


def mechanism(name: str, weights: Any, q: jax.Array, k: jax.Array) -> tuple[Any, Any, Rule]:
    """Projected queries and keys and the rule that joins them; additive attention projects itself.

    tanh is odd, so that additive scores of −q and −k are those of q and k with the other sign: they
    cannot say that two vectors are alike. A constant as one more coordinate of the keys, which is a
    bias within the tanh, mends that.
    """
    if name in DOTS:
        return q @ weights[0], k @ weights[1], Rule(DOTS[name])
    if name == BIASED:
        k = jnp.concatenate([k, jnp.ones_like(k[..., :1])], -1)
    return q, k, Rule(scores.additive(*weights))


def likelihood(name: str, weights: Any, q: jax.Array, k: jax.Array) -> jax.Array:
    """The weight that each query `b 1 1 d` puts on each of its keys `b s 1 d`: `b s`."""
    s = k.shape[-3]
    which = jnp.broadcast_to(jnp.eye(s)[:, None], (*k.shape[:-1], s))
    q, k, rule = mechanism(name, weights, q, k)
    return attend(q, k, which, rule=rule)[:, 0, 0]


def task(section: Learning, depth: int, rng: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Keys; a rotated copy of one of them with noise; which one: `b s 1 d`, `b 1 1 d`, `b`."""
    keys, choice, noise = jax.random.split(rng, 3)
    b, s = section.batch, section.keys
    rotation = jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(depth, depth)))[0])
    k = jax.random.normal(keys, (b, s, 1, depth))
    target = jax.random.randint(choice, (b,), 0, s)
    q = k[jnp.arange(b), target] @ rotation.astype(k.dtype)
    return k, (q + section.noise * jax.random.normal(noise, q.shape))[:, None], target


def learn(name: str, depth: int, section: Learning, seed: Any) -> tuple[jax.Array, jax.Array]:
    """The loss of every step, and the accuracy on new examples at the end."""
    rng = jax.random.key(seed)
    adam = optax.adam(section.rate)
    weights = begin(name, depth, section.hidden * depth, jax.random.fold_in(rng, 0))

    def loss(weights: Any, rng: jax.Array) -> tuple[jax.Array, jax.Array]:
        k, q, target = task(section, depth, rng)
        w = likelihood(name, weights, q, k)
        right = w[jnp.arange(len(w)), target]
        # A weight that has underflowed would be a loss without end and without a slope.
        return -jnp.log(right + 1e-20).mean(), (w.argmax(-1) == target).mean()

    def step(carry: Any, i: jax.Array) -> tuple[Any, jax.Array]:
        weights, state = carry
        (value, _), slopes = jax.value_and_grad(loss, has_aux=True)(
            weights, jax.random.fold_in(rng, i)
        )
        updates, state = adam.update(slopes, state)
        return (optax.apply_updates(weights, updates), state), value

    (weights, _), losses = jax.lax.scan(
        step, (weights, adam.init(weights)), 1 + jnp.arange(section.steps)
    )
    test = [loss(weights, jax.random.fold_in(rng, section.steps + 1 + i))[1] for i in range(4)]
    return losses, jnp.stack(test).mean()


def learning(config: Config) -> tuple[list[Row], dict[tuple[str, int], np.ndarray]]:
    """Accuracy of each score at each depth, and what it costs; and the losses on the way."""
    section, ways = config.learning, {}
    rows: list[Row] = []
    for depth in section.depths:
        cost = costs(section, depth)
        for name in MECHANISMS:
            learners = jax.jit(jax.vmap(functools.partial(learn, name, depth, section)))
            losses, accuracy = learners(np.array(config.seeds))
            ways[name, depth] = np.mean(losses, axis=0)
            found = {"accuracy": float(accuracy.mean()), **cost[name]}
            rows.append({"score": name, "d": depth, **found})
    return rows, ways


def costs(section: Learning, depth: int, repeats: int = 7) -> dict[str, dict[str, float]]:
    """Time of attention and its gradients beside that of scaled dot products, and its memory."""
    x = jax.random.normal(jax.random.key(0), (section.timed, 1, depth))
    programs: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {name: [] for name in MECHANISMS}
    for name in MECHANISMS:

        def f(weights: Any, q: jax.Array, k: jax.Array, name: str = name) -> jax.Array:
            q, k, rule = mechanism(name, weights, q, k)
            return attend(q, k, x, rule=rule, backend="dense").sum()

        weights = begin(name, depth, section.hidden * depth, jax.random.key(1))
        compiled = jax.jit(jax.grad(f, (0, 1, 2))).lower(weights, x, x).compile()
        programs[name] = compiled, weights
    for _ in range(repeats):
        for name, (compiled, weights) in programs.items():
            began = time.perf_counter()
            jax.block_until_ready(compiled(weights, x, x))
            seconds[name].append(time.perf_counter() - began)
    least = np.array(seconds["scaled dot"])
    return {
        name: {
            "time ÷ scaled dot": float(np.median(np.array(seconds[name]) / least)),
            "memory, MiB": compiled.memory_analysis().temp_size_in_bytes / 2**20,
        }
        for name, (compiled, _) in programs.items()
    }


def starts(config: Config) -> list[Row]:
    """Initialisers of the projections, and what they do before the first step."""
    every: dict[str, Callable[..., jax.Array]] = {
        "Xavier uniform": jax.nn.initializers.xavier_uniform(),
        "LeCun normal": jax.nn.initializers.lecun_normal(),
        "He normal": jax.nn.initializers.he_normal(),
        "orthogonal": jax.nn.initializers.orthogonal(),
        "normal 0.02": jax.nn.initializers.normal(0.02),
        "normal 1": jax.nn.initializers.normal(1.0),
    }
    rows: list[Row] = []
    for name, initializer in every.items():
        measured = functools.partial(_at_start, initializer, config.start)
        rows.append({"initialiser": name, **_mean(measured(seed) for seed in config.seeds)})
    return rows


def _at_start(initializer: Callable[..., Any], section: Start, seed: int) -> dict[str, jax.Array]:
    m, h, t = section.width, section.heads, section.length
    rng = jax.random.split(jax.random.key(seed), 5)
    x = jax.random.normal(rng[0], (t, m))
    weights = {name: initializer(r, (m, m)) for name, r in zip("qkv", rng[1:])}
    direction = jax.random.normal(rng[4], (t, m))

    @jax.jit
    def f(weights: dict[str, jax.Array]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        q, k, v = ((x @ weights[name]).reshape(t, h, m // h) for name in "qkv")
        return jnp.vdot(direction, attend(q, k, v).reshape(t, m)), (q, k)

    slopes, (q, k) = jax.grad(f, has_aux=True)(weights)
    found = describe(scores.scaled_dot(), q, k)
    norms = {name: jnp.linalg.norm(slope) for name, slope in slopes.items()}
    return {
        "variance of queries": q.var(),
        "variance of scores": found["variance"],
        "entropy": found["entropy"],
        "gradient of W_q ÷ W_v": norms["q"] / norms["v"],
    }


def _mean(results: Any) -> Row:
    gathered: Sequence[dict[str, Any]] = list(results)
    return {name: float(np.mean([r[name] for r in gathered])) for name in gathered[0]}
