"""ImageGPT as published: Chen et al. (2020), in the names of ``transformers``."""

from __future__ import annotations

from typing import Any

from attn_jax.interop import gpt2
from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.layouts import linear
from attn_jax.models.image_gpt import ImageGPT, ImageGPTConfig


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """The feed-forward width is four times the model's where it is not given."""
    width = config.get("n_embd", ImageGPTConfig().blocks.width)
    return config | {"n_inner": config.get("n_inner") or 4 * width}


TIED = "tie_word_embeddings"
FIELDS = {name: ours for name, ours in gpt2.FIELDS.items() if name != TIED}

ARCHITECTURE = Architecture(
    name="imagegpt",
    model=ImageGPT,
    config=ImageGPTConfig(classes=2),
    fields=FIELDS | {"num_labels": "classes"},
    classes={
        "ImageGPTForCausalImageModeling": Published({"head": "colours"}),
        "ImageGPTForImageClassification": Published({"head": "class"}, linear("score", "output")),
    },
    entries=gpt2.ARCHITECTURE.entries,
    prefix="transformer.",
    required={**gpt2.ARCHITECTURE.required, TIED: False},
    unused=gpt2.ARCHITECTURE.unused,
    complete=complete,
)
