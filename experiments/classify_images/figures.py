"""What networks see in images: rollout over patches, gates of places, and weights of channels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attn_jax.data.images import LabelledImages
from attn_jax.diagnostics.image_maps import image_maps
from attn_jax.diagnostics.plots import COLOURS
from attn_jax.models.cbam import ConvolutionalBlockAttention
from attn_jax.models.senet import SqueezeExcitation
from attn_jax.models.vit import ViT
from experiments.classify_images.method import (
    by_class,
    from_class_token,
    gates,
    kinds,
    one_of_each,
)

MOST = 10  # classes that are drawn


def draw(models: Mapping[str, Any], images: LabelledImages) -> dict[str, Figure]:
    """The pictures that these models give, by name."""
    drawn, shown = {}, one_of_each(images.test, min(images.classes, MOST))
    pictures, labels = {"image": shown.scaled}, [str(label) for label in shown.labels]
    for name, model in models.items():
        if isinstance(model, ViT):
            drawn["rollout"] = image_maps(
                pictures,
                {"reaches the\nclass token": from_class_token(model, shown)},
                f"{name}: attention rollout",
                names=labels,
            )
    for name, model in kinds(models, ConvolutionalBlockAttention).items():
        places = {
            f"gate {number}": places[..., 0]
            for number, (_, places) in enumerate(gates(model, shown), 1)
        }
        title = f"{name}: how much each place counts"
        drawn[_file("places", name)] = image_maps(pictures, places, title, names=labels)
    for name, model in kinds(models, SqueezeExcitation).items():
        weights = [by_class(w, images.test.labels) for w in gates(model, images.test)]
        drawn[_file("channels", name)] = channels(weights, name)
    return drawn


def _file(what: str, name: str) -> str:
    return "_".join([what, *name.split()])


def channels(weights: list[np.ndarray], name: str) -> Figure:
    """The mean weight of each channel, a panel `classes c` for each gate, on one scale of colours."""
    figure = Figure((7.2, 0.6 + 1.5 * len(weights)), layout="constrained")
    grid = figure.subplots(len(weights), 1, squeeze=False)[:, 0]
    for number, (axes, panel) in enumerate(zip(grid, weights), 1):
        picture = axes.imshow(
            panel, COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        axes.set_title(f"gate {number}", fontsize=8)
        axes.set_ylabel("class", fontsize=8)
        axes.tick_params(labelsize=7)
    grid[-1].set_xlabel("channel", fontsize=8)
    bar = figure.colorbar(picture, ax=list(grid), aspect=30, pad=0.01)
    bar.set_label("weight", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(f"{name}: how much each channel counts, by class", fontsize=10)
    return figure
