"""Looks into a published model: BERT, RoBERTa, GPT-2, ViT or DeiT, from its directory."""

import json
from pathlib import Path

import jax
import numpy as np
from flax import nnx

from attn_jax import interop
from attn_jax.diagnostics.report import Example, Map
from attn_jax.models.bert import Bert
from attn_jax.models.gpt import GPT
from attn_jax.models.vit import ViT
from experiments.command_line import Command
from experiments.inspect_attention import images, words
from experiments.inspect_attention.inspection import Inspection, refuse
from experiments.looking import Looked, look_into, page
from experiments.overrides import UsageError

CLASSIC = "The animal didn't cross the street because it was too tired"
"""What does *it* look at? The street, if it were too wide."""


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
    refuse(command, ("target",), "a published model")
    if isinstance(model, ViT):
        looked, example = _image(command, model, directory)
    elif isinstance(model, Bert | GPT):
        looked, example = _sentence(command, model, directory)
    else:
        raise ValueError(
            f"{directory} holds a {type(model).__name__}; Bert, GPT and ViT can be looked into"
        )
    config = json.loads((directory / "config.json").read_text("utf-8"))
    size = sum(x.size for x in jax.tree.leaves(nnx.state(model, nnx.Param)))
    report = page(
        f"{directory.resolve().name}, a {type(model).__name__}",
        looked,
        [example],
        subtitle=f"{size:,} parameters, {len(looked.weights)} layers of attention.",
        config=config,
    )
    return Inspection(report, looked)


def _sentence(command: Command, model: Bert | GPT, directory: Path) -> tuple[Looked, Example]:
    refuse(command, ("image",), f"a {type(model).__name__}")
    text, ids = command.options["text"], command.options["ids"]
    if ids is not None and text is not None:
        raise UsageError("give --text or --ids, not both")
    read = words.numbered(ids) if ids is not None else words.read(directory, text or CLASSIC)
    highest = model.config.vocabulary - 1
    if not read.ids or max(read.ids) > highest:
        raise ValueError(f"expected at least one token, each from 0 to {highest}; got {read.ids}")
    looked = look_into(
        type(model).__call__,
        model,
        np.array([read.ids], np.int32),
        causal=("layers",) if isinstance(model, GPT) else (),
    )
    maps = [Map(path, w[0], read.tokens, read.tokens) for path, w in looked.weights.items()]
    focus = next((i for i, x in enumerate(read.tokens) if x.strip("▁Ġ") == "it"), None)
    return looked, Example(read.title, maps, focus)


def _image(command: Command, model: ViT, directory: Path) -> tuple[Looked, Example]:
    refuse(command, ("text", "ids"), "a ViT; give --image")
    if command.options["image"] is None:
        raise UsageError(f"{directory} holds a ViT: give --image=FILE to look at")
    image = images.read(Path(command.options["image"]), model.config, directory)
    looked = look_into(ViT.__call__, model, image.pixels)
    maps = [Map(path, w[0], image.tokens, image.tokens) for path, w in looked.weights.items()]
    return looked, Example(command.options["image"], maps, 0, image.picture)
