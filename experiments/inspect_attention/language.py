"""Looks into a published model of language: BERT and its kin, GPT-2, or a MarianMT."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from attn_jax.decode import Beam, Specials
from attn_jax.decode.translate import TargetLength, translate
from attn_jax.diagnostics.report import Example, Map
from attn_jax.models.bert import Bert
from attn_jax.models.gpt import GPT
from attn_jax.models.transformer import Transformer
from experiments.command_line import Command
from experiments.inspect_attention import words
from experiments.inspect_attention.excerpts import LONGEST, beginning
from experiments.inspect_attention.inspection import refuse
from experiments.looking import QUICK, Looked, look_into, translation_maps
from experiments.overrides import UsageError

CLASSIC = "The animal didn't cross the street because it was too tired"
"""What does *it* look at? The street, if it were too wide."""

BEAM = Beam(4)


def look_at_sentence(
    command: Command, model: Bert | GPT, directory: Path
) -> tuple[Looked, list[Example], str]:
    """A BERT, a GPT-2 or one of their kin, on a sentence."""
    refuse(command, ("image", "target"), f"a {type(model).__name__}")
    text, ids = _given(command)
    read = words.read(directory, text) if ids is None else words.numbered(ids)
    checked(read.ids, model.config.vocabulary)
    padding = getattr(model.config, "padding", None)  # positions are counted from behind it
    longest = model.config.positions - (0 if padding is None else padding + 1)
    if len(read.ids) > longest:
        raise ValueError(f"{len(read.ids)} tokens, but the model reads {longest} at most")
    shown = beginning(read.tokens)
    special = np.array([read.special])
    looked = look_into(
        type(model).__call__,
        model,
        np.array([read.ids], np.int32),
        causal=("layers",) if isinstance(model, GPT) else (),
        keys=(lambda path: {"special tokens": special}) if special.any() else None,
        groups=shown.groups,
    )
    maps = [Map(path, w[0], shown.tokens, shown.tokens) for path, w in looked.weights.items()]
    focus = next((i for i, x in enumerate(shown.tokens) if x.strip("▁Ġ") == "it"), None)
    return looked, [Example(read.title, maps, focus)], shown.note


def look_at_translation(
    command: Command, model: Transformer, directory: Path
) -> tuple[Looked, list[Example], str]:
    """A MarianMT: as its beam translates a text, or as `--target` says."""
    refuse(command, ("image",), "a model of translation; give --text or --ids")
    (text, ids), target = _given(command), command.options["target"]
    config = model.config
    if ids is None:
        tokens = words.Marian(directory)
        source = tokens.encode(text)
        written = None if target is None else tokens.encode(target, "target")
        pieces, title = tokens.pieces, tokens.decode
    else:
        read = words.numbered(ids)
        source, text = list(read.ids), read.title
        written = None if target is None else list(words.numbered(target, "target").ids)
        pieces = lambda ids: [str(i) for i in ids]  # noqa: E731
        title = lambda ids: " ".join(pieces(ids))  # noqa: E731
    checked([*source, *(written or ())], config.vocabulary)
    if max(len(source), len(written or ())) >= LONGEST:
        print(f"cut to {LONGEST - 1} tokens", file=sys.stderr)
    source = [*source[: LONGEST - 1], config.end]
    written = _searched(model, source) if written is None else written[: LONGEST - 1]
    inputs = [config.begin, *written]
    looked = look_into(
        Transformer.__call__,
        model,
        *(np.array([x], np.int32) for x in (source, inputs)),
        causal=("decoder",),
    )
    wrote = [*written, config.end]
    maps = translation_maps(looked, 0, *map(pieces, (source, inputs, wrote)))
    return looked, [Example(f"{text} → {title(written)}", maps)], ""


def checked(ids: Sequence[int], vocabulary: int) -> None:
    """That there are tokens, and that the model knows them.

    Raises:
      ValueError: there are none, or one is none of the vocabulary.
    """
    if not ids:
        raise ValueError("there is nothing to look at: the text has no token")
    if max(ids) >= vocabulary:
        raise ValueError(
            f"expected token numbers from 0 to {vocabulary - 1}; the largest is {max(ids)}"
        )


def _given(command: Command) -> tuple[str, str | None]:
    """Text, the classic sentence by default, and token numbers in its place or None."""
    text, ids = command.options["text"], command.options["ids"]
    if ids is not None and text is not None:
        raise UsageError("give --text or --ids, not both")
    return CLASSIC if text is None else text, ids


def _searched(model: Transformer, source: list[int]) -> list[int]:
    """The best translation that a beam finds, without the token that ends it."""
    config, (graph, state) = model.config, nnx.split(model)
    specials = Specials(config.padding, config.begin, config.end)
    length = TargetLength(longest=LONGEST)

    def search(state: Any, source: Any) -> Any:
        found = translate(nnx.merge(graph, state), source, BEAM, length=length, specials=specials)
        return found.tokens[0, 0], found.lengths[0, 0]

    run = jax.jit(search, compiler_options=QUICK)
    tokens, count = jax.device_get(run(state, np.array([source], np.int32)))
    found = tokens[:count].tolist()
    return found[:-1] if found and found[-1] == config.end else found
