"""Looks into a run of experiments.translate or experiments.language_model."""

import dataclasses
import json
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax.diagnostics.report import Example, Map
from attn_jax.models.gpt import GPT
from attn_jax.train.metrics import whole_lines
from experiments.command_line import Command
from experiments.inspect_attention.excerpts import beginning
from experiments.inspect_attention.inspection import Inspection, refuse
from experiments.inspect_attention.language import CLASSIC
from experiments.language_model import workdir as language_model
from experiments.language_model.config import Config as LanguageConfig
from experiments.looking import look_into, page
from experiments.overrides import UsageError
from experiments.translate import config as sections
from experiments.translate import corpora
from experiments.translate.config import Config
from experiments.translate.page import look, translation_page
from experiments.translate.translation import tell_of_cut
from experiments.translate.workdir import Workdir


def inspect_run(command: Command) -> Inspection:
    """A run, of whichever experiment left it.

    Raises:
      FileNotFoundError: there is no run, or it has no samples and no text was given.
      UsageError: an option that means nothing for a run.
    """
    refuse(command, ("ids", "image"), "a run; give --text")
    file = command.workdir / "config.json"
    if not file.exists():
        raise FileNotFoundError(
            f"no run in {command.workdir}: give --workdir=RUN, where experiments.translate or"
            " experiments.language_model has trained, or --model=DIR, a published model"
        )
    config = read_config(file)
    if isinstance(config, LanguageConfig):
        return _language_model(command, config)
    return _translation(command, config)


def read_config(file: Path) -> Config | LanguageConfig:
    """The config that a run left in its workdir.

    Raises:
      ValueError: it is not one.
    """
    try:
        values = json.loads(file.read_text("utf-8"))
        if "generate" in values:
            return _filled(LanguageConfig, values)
        data = dict(values.pop("data"))
        made = {"data": getattr(corpora, data.pop("corpus"))(**data)}
        for name, section in values.items():
            made[name] = _section(section) if isinstance(section, Mapping) else section
        return Config(**made)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{file} is not what experiments.translate or experiments.language_model writes: {error}"
        ) from error


def _translation(command: Command, config: Config) -> Inspection:
    """Given text or its samples, as translated by its beam, or as `--target` says."""
    workdir, options = Workdir(command.workdir), command.options
    if options["target"] is not None and options["text"] is None:
        raise UsageError("--target is a translation of --text, which is not given")
    texts = _samples(workdir.result) if options["text"] is None else [options["text"]]
    system, state = workdir.trained(config)
    if options["target"] is not None:
        translations = [system.forced(texts[0], options["target"])]
    else:
        translations = list(system.translate(state.averaged, texts, system.search, chunk=1))
    for number, translation in enumerate(translations, 1):
        tell_of_cut(number, translation)
    looked, examples = look(system, state, translations)
    if not examples:
        print(f"A {system.name} has no attention; the page is of its training.", file=sys.stderr)
    return Inspection(translation_page(system, looked, examples, workdir), looked)


def _language_model(command: Command, config: LanguageConfig) -> Inspection:
    """Given text or the classic sentence, after the token that a document begins with."""
    refuse(command, ("target",), "a language model")
    text = CLASSIC if command.options["text"] is None else command.options["text"]
    workdir = language_model.Workdir(command.workdir)
    system, state = workdir.trained(config)
    tokenizer, model = system.tokenizer, system.model(state.averaged)
    ids = [tokenizer.eos, *tokenizer.encode(text)]
    if model.longest is not None and len(ids) > model.longest:
        print(f"cut to the {model.longest} tokens that the model reads", file=sys.stderr)
        ids = ids[: model.longest]
    tokens = tokenizer.pieces(ids)
    shown = beginning(tokens)
    first = np.arange(len(ids))[None] == 0
    looked = look_into(
        GPT.__call__,
        model,
        np.array([ids], np.int32),
        causal=("layers",),
        keys=lambda path: {"special tokens": first},
        groups=shown.groups,
    )
    maps = [Map(path, w[0], shown.tokens, shown.tokens) for path, w in looked.weights.items()]
    focus = next((i for i, x in enumerate(shown.tokens) if x.strip("▁") == "it"), None)
    report = page(
        "GPT",
        looked,
        [Example(text, maps, focus)],
        subtitle=f"{system.parameters:,} parameters. {shown.note}",
        metrics=whole_lines(workdir.path / "metrics.jsonl"),
        config=workdir.plain(config),
    )
    return Inspection(report, looked)


def _filled(kind: type, values: Mapping[str, Any]) -> Any:
    """A dataclass from what JSON has of its fields."""
    hints = typing.get_type_hints(kind)
    return kind(
        **{
            name: _filled(hints[name], x) if dataclasses.is_dataclass(hints.get(name)) else x
            for name, x in values.items()
        }
    )


def _section(values: Mapping[str, Any]) -> Any:
    """The config section that has just these fields, or with more of them that have defaults."""
    kinds = [x for x in vars(sections).values() if dataclasses.is_dataclass(x)]
    fitting = [
        kind
        for kind in kinds
        if values.keys() <= {field.name for field in dataclasses.fields(kind)}
    ]
    if not fitting:
        raise ValueError(f"no section has the fields {', '.join(values)}")
    return min(fitting, key=lambda kind: len(dataclasses.fields(kind)))(**values)  # type: ignore[operator]


def _samples(file: Path) -> list[str]:
    if not file.exists():
        raise FileNotFoundError(f"no {file} to take samples from: give --text")
    try:
        found = json.loads(file.read_text("utf-8"))["samples"]
        return [str(sample["source"]) for sample in found[:3]]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} has no samples: give --text") from error
