"""Images classified by attention among patches, inside windows, and by convolutions with gates.

All networks are of about one size, see the same kind of batches and are judged by the same images,
once. They make the same number of steps; and then as many as fit into the same time.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx

from attn_jax.data.images import Images, LabelledImages
from attn_jax.diagnostics.paths import rollout
from attn_jax.models.resnet import ResNet
from attn_jax.models.vit import ViT
from experiments.classify_images.config import Config
from experiments.classify_images.learning import Learned, Learner, seconds_per_step
from experiments.classify_images.networks import NETWORKS, checked
from experiments.results import Row


class Judged(NamedTuple):
    """Of each seed."""

    accuracy: np.ndarray
    loss: np.ndarray


def learners(config: Config, images: LabelledImages) -> dict[str, Learner]:
    """One for each network of the config."""
    shape = images.train.pixels.shape[1:]
    return {
        name: Learner(
            NETWORKS[name](config.sizes, shape, images.classes), images.train, config.train
        )
        for name in checked(config.networks)
    }


def judge(config: Config, learner: Learner, steps: int, images: Images) -> tuple[Judged, Learned]:
    """Trains with every seed; what came of it, and what the first has learned."""
    learned = [learner.train(seed, steps) for seed in config.seeds]
    found = np.array([learner.judge(one, images) for one in learned])
    return Judged(*found.T), learned[0]


def row(name: str, learner: Learner, judged: Judged, **columns: Any) -> Row:
    """A line of a table."""
    return {
        "network": name,
        "parameters": learner.parameters,
        **columns,
        "accuracy": float(judged.accuracy.mean()),
        "least": float(judged.accuracy.min()),
        "most": float(judged.accuracy.max()),
        "loss": float(judged.loss.mean()),
    }


def compare(config: Config, images: LabelledImages) -> tuple[dict[str, list[Row]], dict[str, Any]]:
    """Every network, as many steps each, then as many as the time allows; and models that learned.

    Returns:
      A table each; and the models of the first seed, by the network's name.
    """
    known, tables, models = learners(config, images), dict[str, list[Row]](), {}
    took = dict(zip(known, seconds_per_step(known.values())))
    tables["steps"] = []
    for name, learner in known.items():
        judged, learned = judge(config, learner, config.train.steps, images.test)
        models[name] = learner.model(learned)
        tables["steps"].append(row(name, learner, judged, **{"ms per step": 1e3 * took[name]}))
    if config.train.seconds:
        tables["time"] = []
        for name, learner in known.items():
            steps = max(round(config.train.seconds / took[name]), 1)
            judged, _ = judge(config, learner, steps, images.test)
            tables["time"].append(row(name, learner, judged, steps=steps))
    return tables, models


def one_of_each(images: Images, classes: int) -> Images:
    """The first image of each class."""
    which = [int(np.flatnonzero(images.labels == label)[0]) for label in range(classes)]
    return Images(images.pixels[which], images.labels[which], images.top)


def from_class_token(model: ViT, images: Images) -> np.ndarray:
    """How much of each patch reaches the class token, by rollout: `n y x`."""
    maps = _called(ViT.attention_maps, model, images.scaled)
    height, width = model.config.grid
    return np.asarray(rollout(maps))[:, 0, -height * width :].reshape(-1, height, width)


def gates(model: ResNet, images: Images) -> tuple[Any, ...]:
    """What each gate of the network multiplies its branch with."""
    return jax.device_get(_called(ResNet.gates, model, images.scaled))


def by_class(weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mean weight of each channel for the images of each class: `classes c`."""
    return np.stack([weights[labels == label].mean((0, 1, 2)) for label in np.unique(labels)])


def kinds(models: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The models whose first gate is of a kind."""
    return {
        name: model
        for name, model in models.items()
        if isinstance(model, ResNet) and any(isinstance(b.gate, kind) for b in model.blocks)
    }


def _called(method: Callable[..., Any], model: Any, images: np.ndarray) -> Any:
    graph, state = nnx.split(model)
    return jax.jit(lambda state, images: method(nnx.merge(graph, state), images))(state, images)
