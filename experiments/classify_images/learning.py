"""Training a network on images: one step, compiled once for all seeds and lengths."""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from attn_jax.data.images import Images
from attn_jax.models.resnet import ResNet
from attn_jax.train import cosine, decays
from experiments.classify_images.config import Training
from experiments.classify_images.networks import Make

PROGRESS = 1000  # the schedule is a function of how much of the training is done, in so many parts
ROUNDS, STEPS = 5, 10  # in which the networks are timed in turn
TESTED = 512  # images of a batch


class Learned(NamedTuple):
    """What training changes."""

    params: Any
    statistics: Any
    moments: Any


class Learner:
    """A network, how it is trained, and how it is judged.

    Loops are Python's: compiled ones are slow at convolutions on a CPU.

    Args:
      make: of random generators to a model.
      images: to learn from.
      section: how.
    """

    def __init__(self, make: Make, images: Images, section: Training) -> None:
        self._make, self._section = make, section
        self._graph, params, _, self._rest = _split(make(nnx.Rngs(0)))
        self.parameters = sum(x.size for x in jax.tree.leaves(params))
        self._images = jax.tree.map(jnp.asarray, (images.scaled, images.labels))
        self._step = jax.jit(self._stepped, donate_argnums=0)
        self._logits = jax.jit(lambda learned, x: self.model(learned)(x))
        self._optimizer = optax.chain(
            optax.scale_by_adam(), optax.add_decayed_weights(section.decay, mask=decays)
        )
        self._rate = cosine(section.rate, PROGRESS // 10, PROGRESS)

    def model(self, learned: Learned) -> Any:
        """The network with what was learned in it."""
        return nnx.merge(self._graph, learned.params, learned.statistics, self._rest)

    def begin(self, seed: int) -> Learned:
        """Before the first step."""
        _, params, statistics, _ = _split(self._make(nnx.Rngs(seed)))
        return Learned(params, statistics, self._optimizer.init(params))

    def train(self, seed: int, steps: int) -> Learned:
        """After the last."""
        learned, rng = self.begin(seed), jax.random.key(seed)
        for number in range(steps):
            learned = self.step(learned, rng, number, steps)
        return jax.block_until_ready(learned)

    def step(self, learned: Learned, rng: Any, number: int, steps: int) -> Learned:
        """After one of so many; what was learned before is consumed."""
        return self._step(learned, self._images, rng, number, steps)

    def judge(self, learned: Learned, images: Images) -> tuple[float, float]:
        """Accuracy, and loss in nats, of other images."""
        x = images.scaled
        logits = np.concatenate(
            [self._logits(learned, x[i : i + TESTED]) for i in range(0, len(x), TESTED)]
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, images.labels)
        return float((logits.argmax(-1) == images.labels).mean()), float(losses.mean())

    def _stepped(self, learned: Learned, images: Any, rng: Any, number: Any, steps: Any) -> Learned:
        rows = (self._section.rows,)
        which = jax.random.randint(jax.random.fold_in(rng, number), rows, 0, len(images[1]))
        x, y = (part[which] for part in images)

        def loss(params: Any) -> tuple[Any, Any]:
            model = self.model(learned._replace(params=params))
            logits, statistics = _in_training(model, x)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
            return losses.mean(), statistics

        slopes, statistics = jax.grad(loss, has_aux=True)(learned.params)
        updates, moments = self._optimizer.update(slopes, learned.moments, learned.params)
        rate = self._rate(PROGRESS * number / steps)
        params = jax.tree.map(lambda p, u: p - rate * u, learned.params, updates)
        return Learned(params, statistics, moments)


def _split(model: nnx.Module) -> Any:
    return nnx.split(model, nnx.Param, nnx.BatchStat, ...)


def _in_training(model: Any, x: jax.Array) -> tuple[jax.Array, Any]:
    """Logits, and batch statistics where there are any."""
    if isinstance(model, ResNet):
        return model.in_training(x)
    return model(x), nnx.state(model, nnx.BatchStat)


def seconds_per_step(learners: Iterable[Learner]) -> list[float]:
    """Of each, taken in turn, the shortest of a few rounds: what else the machine does adds to it.

    On a CPU it is the processor's time, of all cores, which others move least.
    """
    learners = list(learners)
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    for learner in learners:
        learner.train(0, 1)  # compiles
    rounds = []
    for _ in range(ROUNDS):
        took = []
        for learner in learners:
            begun, rng = jax.block_until_ready(learner.begin(0)), jax.random.key(0)
            start = clock()
            for number in range(STEPS):
                begun = learner.step(begun, rng, number, STEPS)
            jax.block_until_ready(begun)
            took.append((clock() - start) / STEPS)
        rounds.append(took)
    return np.min(rounds, 0).tolist()
