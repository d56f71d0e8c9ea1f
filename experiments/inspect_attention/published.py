"""Looks into a published model: whatever `attn_jax.interop` loads, from its directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from attn_jax import interop
from attn_jax.models.bert import Bert
from attn_jax.models.gpt import GPT
from attn_jax.models.image_gpt import ImageGPT
from attn_jax.models.swin import Swin
from attn_jax.models.transformer import Transformer
from attn_jax.models.vit import ViT
from experiments.command_line import Command
from experiments.inspect_attention.images import read_object
from experiments.inspect_attention.inspection import Inspection
from experiments.inspect_attention.language import look_at_sentence, look_at_translation
from experiments.inspect_attention.vision import (
    look_at_patches,
    look_at_pixels,
    look_at_windows,
)
from experiments.looking import page
from experiments.overrides import UsageError

LOOKS: dict[type, Callable[..., Any]] = {
    Bert: look_at_sentence,
    GPT: look_at_sentence,
    Transformer: look_at_translation,
    ViT: look_at_patches,
    Swin: look_at_windows,
    ImageGPT: look_at_pixels,
}


def inspect_published(command: Command) -> Inspection:
    """A model of a directory, on a sentence or an image.

    Raises:
      UsageError: an option that means nothing for this model, or one that it needs is missing.
      ValueError: the model is of none of the kinds that are known.
    """
    directory = Path(command.options["model"] or "")
    try:
        model = interop.load(directory)
    except ImportError as error:
        raise UsageError(str(error)) from error
    look = next((look for kind, look in LOOKS.items() if isinstance(model, kind)), None)
    if look is None:
        raise ValueError(f"{directory} holds a {type(model).__name__}, which cannot be looked into")
    looked, examples, note = look(command, model, directory)
    size = sum(x.size for x in jax.tree.leaves(nnx.state(model, nnx.Param)))
    report = page(
        f"{directory.resolve().name}: {type(model).__name__}",
        looked,
        examples,
        subtitle=f"{size:,} parameters, {len(looked.weights)} layers of attention. {note}",
        config=read_object(directory / "config.json"),
    )
    return Inspection(report, looked)
