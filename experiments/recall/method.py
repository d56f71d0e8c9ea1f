"""What has to go through one vector, and what is looked at again where it stands.

To copy is to say n symbols again: what must be kept grows with n. To look up is to say the value of
each of a few keys, with fillers before and behind the pairs: what must be kept does not grow, but the
way of an encoder's state to the pairs does, and that of its gradient.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from attn_jax.models.bahdanau import PADDING, Bahdanau, RecurrentConfig, Seq2Seq
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.train import cosine, cross_entropy
from experiments.recall.config import Config
from experiments.results import Row

BEGIN, FILLER, FIRST = 1, 2, 3  # 0 is padding
OVER = 10  # steps that an accuracy on the way is the mean of
Found = dict[str, dict[str, dict[str, Row]]]
"""By task, by model, by length or distance."""

TESTED = 256  # sequences
QUICK = {"xla_backend_optimization_level": 1}  # as fast as 2, in two thirds of the time to compile


class Sequences(NamedTuple):
    """Of one task, `b s` and `b t`, integers."""

    source: jax.Array
    inputs: jax.Array
    labels: jax.Array
    """What follows each of the inputs; 0 where nothing is asked."""


def copying(symbols: int, length: int, rows: int, rng: Any) -> Sequences:
    """Random symbols, to be said again."""
    drawn = FIRST + jax.random.randint(rng, (rows, length), 0, symbols)
    inputs = jnp.pad(drawn[:, :-1], ((0, 0), (1, 0)), constant_values=BEGIN)
    return Sequences(drawn, inputs, drawn)


def looking_up(symbols: int, pairs: int, distance: int, rows: int, rng: Any) -> Sequences:
    """Pairs of a key and a value, a token each, amid fillers; then each key, for its value.

    A key is given twice, and asked for at the second: Bahdanau's decoder looks with the state from
    before the token it is given.
    """
    keys, order = (
        jax.vmap(lambda rng, of=of: jax.random.permutation(rng, of)[:pairs])(
            jax.random.split(jax.random.fold_in(rng, number), rows)
        )
        for number, of in enumerate((symbols, pairs))
    )
    values = jax.random.randint(jax.random.fold_in(rng, 2), (rows, pairs), 0, symbols)
    fillers = ((0, 0), (distance, distance))
    source = jnp.pad(FIRST + 2 * symbols + symbols * keys + values, fillers, constant_values=FILLER)
    keys, values = (jnp.take_along_axis(x, order, 1) for x in (keys, values))
    labels = jnp.stack([jnp.full_like(values, PADDING), FIRST + symbols + values], -1)
    return Sequences(source, jnp.repeat(FIRST + keys, 2, 1), labels.reshape(rows, -1))


def build(name: str, config: Config, seed: Any) -> Seq2Seq | Transformer:
    """A model of one layer on either side; those that are recurrent read the source both ways."""
    rngs, width, symbols = nnx.Rngs(jax.random.key(seed)), config.width, config.tasks.symbols
    vocabulary = FIRST + 2 * symbols + symbols**2
    if name == "Transformer":
        blocks = BlockOptions(width, 2 * width, config.heads, norm="pre", dropout=0.0)
        return Transformer(TransformerConfig(vocabulary, None, 1, 1, blocks), rngs=rngs)
    model = Bahdanau if name == "attention" else Seq2Seq
    return model(RecurrentConfig(vocabulary, None, width, width, width), rngs=rngs)


class Learner:
    """A model in its initial states, one for each seed, to be trained on task after task.

    Args:
      name: of the model.
      config: what was asked for.
    """

    def __init__(self, name: str, config: Config) -> None:
        self.config = config

        # One by one: mapped in one program, jaxlib 0.10 waits for ever for their QR decompositions.
        drawn: list[Any] = [
            nnx.split(build(name, config, seed), nnx.Param, ...) for seed in config.seeds
        ]
        self._graph, _, self._rest = drawn[0]
        self._initial = jax.tree.map(lambda *x: jnp.stack(x), *(params for _, params, _ in drawn))

    def learn(self, draw: Callable[[int, Any], Sequences]) -> Row:
        """Trains on a task; the numbers of the table.

        Args:
          draw: a number of rows and a typed key to sequences.
        """
        section, seeds = self.config.train, np.array(self.config.seeds)
        train = jax.jit(jax.vmap(functools.partial(self._train, draw)), compiler_options=QUICK)
        compiled = train.lower(self._initial, seeds).compile()
        began = time.perf_counter()
        found, on_the_way = jax.device_get(compiled(self._initial, seeds))
        seconds = time.perf_counter() - began
        steps = [n for x in on_the_way if (n := reached(x, section.learned)) is not None]
        return {
            "accuracy": float(found.mean()),
            f"steps to {section.learned:g}": int(np.mean(steps))
            if len(steps) == len(seeds)
            else None,
            "ms per step": 1e3 * seconds / section.steps,
            "accuracies": found.tolist(),
            "on the way": in_tens(on_the_way.mean(0)).tolist(),
        }

    def _train(self, draw: Any, params: Any, seed: Any) -> tuple[jax.Array, jax.Array]:
        """The accuracy on new sequences at the end, and that of each step."""
        section, rng = self.config.train, jax.random.key(seed)
        optimizer = optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.adam(cosine(section.rate, section.steps // 20, section.steps)),
        )

        def judge(params: Any, sequences: Sequences) -> tuple[jax.Array, jax.Array]:
            model = nnx.merge(self._graph, params, self._rest)
            logits = model(sequences.source, sequences.inputs)
            sums = cross_entropy(logits, sequences.labels, smoothing=0.0)
            return sums["loss"] / sums["count"], sums["correct"] / sums["count"]

        def step(carry: Any, number: jax.Array) -> tuple[Any, jax.Array]:
            params, state = carry
            sequences = draw(section.rows, jax.random.fold_in(rng, number))
            slopes, accuracy = jax.grad(judge, has_aux=True)(params, sequences)
            updates, state = optimizer.update(slopes, state)
            return (optax.apply_updates(params, updates), state), accuracy

        start = params, optimizer.init(params)
        (params, _), on_the_way = jax.lax.scan(step, start, jnp.arange(section.steps))
        new = draw(TESTED, jax.random.fold_in(rng, section.steps))
        return judge(params, new)[1], on_the_way


def reached(accuracies: np.ndarray, goal: float) -> int | None:
    """The first step after which the mean of ten is as large as the goal; None where none is."""
    means = np.convolve(accuracies, np.ones(OVER) / OVER, "valid")
    found = np.flatnonzero(means >= goal)
    return int(found[0]) + OVER if found.size else None


def in_tens(accuracies: np.ndarray) -> np.ndarray:
    """The mean of each ten steps."""
    whole = len(accuracies) // OVER * OVER
    return accuracies[:whole].reshape(-1, OVER).mean(1)


def compare(config: Config) -> Found:
    """What each model makes of each task at each length or distance."""
    tasks = config.tasks
    draws: dict[str, dict[str, Callable[[int, Any], Sequences]]] = {
        "copy": {str(n): functools.partial(copying, tasks.symbols, n) for n in tasks.lengths},
        "look up": {
            str(n): functools.partial(looking_up, tasks.symbols, tasks.pairs, n)
            for n in tasks.distances
        },
    }
    found: Found = {task: {} for task in draws}
    for name in config.models:
        learner = Learner(name, config)
        for task, by_length in draws.items():
            found[task][name] = {n: learner.learn(draw) for n, draw in by_length.items()}
    return found


def table(measured: dict[str, dict[str, Row]], name: str) -> list[Row]:
    """One number of each model at each length or distance, a row for each model."""
    return [
        {"model": model, **{n: row[name] for n, row in by_length.items()}}
        for model, by_length in measured.items()
    ]
