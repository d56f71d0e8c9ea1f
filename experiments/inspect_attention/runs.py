"""Looks into a run of experiments.translate."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from experiments.command_line import Command
from experiments.inspect_attention.inspection import Inspection, refuse
from experiments.overrides import UsageError
from experiments.translate import config as sections
from experiments.translate import corpora
from experiments.translate.config import Config
from experiments.translate.page import look, translation_page
from experiments.translate.translation import tell_of_cut
from experiments.translate.workdir import Workdir


def inspect_run(command: Command) -> Inspection:
    """A translation run: given text or its samples, as translated by its beam, or as `--target` says.

    Raises:
      FileNotFoundError: there is no run, or it has no samples and no text was given.
      UsageError: an option that means nothing for a run.
    """
    refuse(command, ("ids", "image"), "a run; give --text")
    workdir, options = Workdir(command.workdir), command.options
    if not workdir.config.exists():
        raise FileNotFoundError(
            f"no run in {command.workdir}: give --workdir=RUN, where experiments.translate has"
            " trained, or --model=DIR, a published model"
        )
    system, state = workdir.trained(read_config(workdir))
    if options["target"] is not None and options["text"] is None:
        raise UsageError("--target is a translation of --text, which is not given")
    texts = _samples(workdir) if options["text"] is None else [options["text"]]
    if options["target"] is not None:
        translations = [system.forced(texts[0], options["target"])]
    else:
        translations = list(system.translate(state.averaged, texts, system.beam, chunk=1))
    for number, translation in enumerate(translations, 1):
        tell_of_cut(number, translation)
    looked, examples = look(system, state, translations)
    return Inspection(translation_page(system, looked, examples, workdir), looked)


def read_config(workdir: Workdir) -> Config:
    """The config that a run left in its workdir.

    Raises:
      ValueError: it is not one.
    """
    try:
        values = json.loads(workdir.config.read_text("utf-8"))
        data = dict(values.pop("data"))
        made = {"data": getattr(corpora, data.pop("corpus"))(**data)}
        for name, section in values.items():
            made[name] = _section(section) if isinstance(section, Mapping) else section
        return Config(**made)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{workdir.config} is not what experiments.translate writes: {error}"
        ) from error


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


def _samples(workdir: Workdir) -> list[str]:
    if not workdir.result.exists():
        raise FileNotFoundError(f"no {workdir.result} to take samples from: give --text")
    found = json.loads(workdir.result.read_text("utf-8"))["samples"]
    return [sample["source"] for sample in found[:3]]
