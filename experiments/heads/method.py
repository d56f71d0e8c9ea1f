"""A softmax is one distribution: a head can look at one place, or at a blur of several.

The task is to say at once which tokens stood at several distances. One head can only blend them, and
then they cannot be told apart. Of several heads each blends them in another way, and what projects their
outputs can undo that.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from attn_jax import Rule, masks
from attn_jax.diagnostics.examination import examine, influence
from attn_jax.modules import MultiHeadAttention, TokenEmbedding, capture, gated
from attn_jax.modules.positional import biased
from experiments.heads.config import Config, Task
from experiments.results import Row

PATH = "attention"
TESTED = 64  # sequences


class Reader(nnx.Module):
    """One layer of attention over tokens, and a linear map to a token for each distance.

    Args:
      task: what is to be said.
      width: m.
      heads: h, which share the width; where keys stand is a learned bias by distance for each.
      rngs: where the initial parameters come from.
    """

    def __init__(self, task: Task, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.shape = (len(task.distances), task.vocabulary)
        rule = biased(Rule(mask=masks.causal()), "t5", heads, bidirectional=False)
        self.embedding = TokenEmbedding(task.vocabulary, width, rngs=rngs)
        self.attention = MultiHeadAttention(width, heads, rule=rule, rngs=rngs)
        self.out = nnx.Linear(width, len(task.distances) * task.vocabulary, rngs=rngs)

    def __call__(self, ids: jax.Array) -> jax.Array:
        """`b t` integers to logits `b t distances v`."""
        y = self.out(self.attention(self.embedding(ids)))
        return y.reshape(*ids.shape, *self.shape)


class Trained(NamedTuple):
    """Readers of some heads, and the parameters that each seed has come to, stacked."""

    graph: Any
    params: Any
    rest: Any

    def of(self, seed: int) -> Reader:
        """That of a seed, by its place in the config."""
        params = jax.tree.map(lambda x: x[seed], self.params)
        return nnx.merge(self.graph, params, self.rest)


def draw_tokens(task: Task, rows: int, rng: Any) -> jax.Array:
    """Random sequences, `b t`."""
    return jax.random.randint(rng, (rows, task.length), 0, task.vocabulary)


def per_distance(
    model: Reader, distances: Sequence[int], ids: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Mean loss, nats, and accuracy of what is said of each distance, where there is such a token."""
    first, length = max(distances), ids.shape[-1]
    logits = model(ids)[:, first:]
    labels = jnp.stack([ids[:, first - d : length - d] for d in distances], -1)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return losses.mean((0, 1)), (logits.argmax(-1) == labels).mean((0, 1))


def loss_of(model: Reader, distances: Sequence[int], ids: jax.Array) -> jax.Array:
    """Nats for each token that is to be said."""
    return per_distance(model, distances, ids)[0].mean()


def train(config: Config, heads: int) -> Trained:
    """Trains readers of so many heads, for all seeds at once."""
    graph, _, rest = _split(config, heads, 0)
    learn = jax.jit(jax.vmap(functools.partial(_learn, config, heads, graph, rest)))
    return Trained(graph, learn(np.array(config.seeds)), rest)


def _split(config: Config, heads: int, seed: Any) -> Any:
    rngs = nnx.Rngs(jax.random.key(seed))
    return nnx.split(Reader(config.task, config.width, heads, rngs=rngs), nnx.Param, ...)


def _learn(config: Config, heads: int, graph: Any, rest: Any, seed: Any) -> Any:
    section, distances, rng = config.train, config.task.distances, jax.random.key(seed)
    optimizer = optax.adam(optax.cosine_decay_schedule(section.rate, section.steps))

    def step(carry: Any, number: jax.Array) -> tuple[Any, None]:
        params, state = carry
        ids = draw_tokens(config.task, section.rows, jax.random.fold_in(rng, number))
        slopes = jax.grad(lambda p: loss_of(nnx.merge(graph, p, rest), distances, ids))(params)
        updates, state = optimizer.update(slopes, state)
        return (optax.apply_updates(params, updates), state), None

    params = _split(config, heads, seed)[1]
    start = params, optimizer.init(params)
    return jax.lax.scan(step, start, jnp.arange(section.steps))[0][0]


def new_tokens(config: Config) -> jax.Array:
    """Sequences that no seed was trained on."""
    return draw_tokens(config.task, TESTED, jax.random.key(2**31 - 1))


def score(config: Config, trained: Trained) -> tuple[np.ndarray, np.ndarray]:
    """Loss and accuracy on new sequences, `seeds distances` each."""
    ids = new_tokens(config)

    @jax.jit
    @jax.vmap
    def scored(params: Any) -> Any:
        return per_distance(
            nnx.merge(trained.graph, params, trained.rest), config.task.distances, ids
        )

    return jax.device_get(scored(trained.params))


def compare(config: Config) -> tuple[list[Row], Trained]:
    """Every number of heads; and the readers with the last."""
    rows: list[Row] = []
    for heads in config.heads:
        trained = train(config, heads)
        loss, accuracy = score(config, trained)
        rows.append(
            {
                "heads": heads,
                "depth": config.width // heads,
                "loss": float(loss.mean()),
                "accuracy": float(accuracy.mean()),
                "distances read": float((accuracy > 0.9).sum(1).mean()),
            }
        )
    return rows, trained


def look_into(config: Config, model: Reader) -> tuple[list[Row], np.ndarray, np.ndarray]:
    """What each head does and what is lost without it; where each looks back; how they differ.

    Returns:
      A row for each head; its mean weight on each distance, `h d`; and divergences, `h h`, bits.
    """
    graph, state = nnx.split(model)
    distances = tuple(config.task.distances)
    weights, numbers, matters = jax.device_get(_seen(graph, distances, state, new_tokens(config)))
    back = looks_back(weights, max(distances) + 1)
    whole, without = without_each(config, model)
    rows: list[Row] = [
        {
            "head": head,
            "looks back": int(back[head].argmax()),
            "weight there": float(back[head].max()),
            "mean distance": float(numbers.summary.distance[head]),
            "entropy": float(numbers.summary.entropy[head]),
            "influence": float(matters[head]),
            "lost": float(without[head] - whole),
        }
        for head in range(len(back))
    ]
    return rows, back, numbers.divergence


@functools.partial(jax.jit, static_argnums=(0, 1))
def _seen(graph: Any, distances: tuple[int, ...], state: Any, ids: jax.Array) -> Any:
    """Weights, numbers and influence on the loss of the attention."""
    model = nnx.merge(graph, state)
    _, looks = capture(Reader.__call__, model, ids)
    numbers = examine(Reader.__call__, model, ids)
    matters = influence(lambda model: loss_of(model, distances, ids) * len(ids), model, looks)
    return looks[PATH].weights(), numbers[PATH], matters[PATH]


def looks_back(weights: np.ndarray, distances: int) -> np.ndarray:
    """The mean weight of `b h t t` on keys 0, 1, … before the query, where there are so many: `h d`."""
    t = weights.shape[-1]
    return np.stack(
        [weights[..., np.arange(distances, t), np.arange(distances, t) - d].mean((0, 2))
         for d in range(distances)],
        -1,
    )  # fmt: skip


def with_gates(config: Config, model: Reader, gates: np.ndarray) -> np.ndarray:
    """The loss for each of several gates of the heads, `n h`, by which their outputs are multiplied."""
    graph, state = nnx.split(model)
    distances = tuple(config.task.distances)
    return np.asarray(_with_gates(graph, distances, state, gates, new_tokens(config)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _with_gates(graph: Any, distances: Any, state: Any, gates: jax.Array, ids: jax.Array) -> Any:
    model = nnx.merge(graph, state)
    return jax.lax.map(lambda gate: gated(loss_of, model, {PATH: gate}, distances, ids), gates)


def without_each(config: Config, model: Reader) -> tuple[float, np.ndarray]:
    """The loss with all heads, and without each of them, `h`."""
    h = model.attention.heads
    found = with_gates(config, model, np.concatenate([np.ones((1, h)), 1 - np.eye(h)]).astype("f4"))
    return float(found[0]), found[1:]


def prune(config: Config, model: Reader, order: np.ndarray) -> np.ndarray:
    """The loss as heads are taken away in an order, none to all of them: `h + 1`."""
    gates = np.ones((len(order) + 1, len(order)), "f4")
    for taken, head in enumerate(order, 1):
        gates[taken:, head] = 0
    return with_gates(config, model, gates)
