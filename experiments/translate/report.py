"""The result of a run, as a person reads it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments.results import show_paths
from experiments.translate.quality import NAMES, OfLength, Quality

TITLES = ("BLEU", "chrF", "TER")


@dataclasses.dataclass(frozen=True)
class Sample:
    """A test sentence, what it should become, and what it became."""

    source: str
    reference: str
    translation: str


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run came to; `result.json` holds it.

    Args:
      scores: of the model, and of what it is compared with.
      chances: for each system that the model is compared with, how probable differences as large
        as theirs are, if they are of one quality.
      by_length: of each system's translations, by the lengths of their sources.
      exact_counts: whether a source has one right answer, so that exact match means something.
      step: of the checkpoint that was chosen on the validation split.
      parameters: of the model.
      training: seconds, target tokens and target tokens per second of all training steps, seconds
        of compiling them, and the utilisation of the devices where their peak is known.
      sentences_per_second: of translating the test, without compiling.
      compile_seconds: of compiling all searches of this process.
      decoding: how it was translated.
      samples: a few translations, evenly spread over the test.
    """

    scores: Mapping[str, Quality]
    chances: Mapping[str, Mapping[str, float]]
    by_length: Mapping[str, Sequence[OfLength]]
    exact_counts: bool
    step: int
    parameters: int
    training: Mapping[str, float]
    sentences_per_second: float
    compile_seconds: float
    decoding: Mapping[str, Any]
    samples: Sequence[Sample]


def show(result: Result, paths: Sequence[Path], console: Console | None = None) -> None:
    """Prints the scores with their signatures, the speeds, the samples, and the paths."""
    console = console or Console(highlight=False)
    metrics = NAMES.values()
    exact = ["exact match"] if result.exact_counts else []
    table = Table("", *TITLES, *exact)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, found in result.scores.items():
        numbers = (
            f"{getattr(found, metric):.1f} ± {found.interval[metric]:.1f}" for metric in metrics
        )
        table.add_row(Text(name), *numbers, *(f"{found.exact:.1f} %" for _ in exact))
    console.print(table)
    first = next(iter(result.scores.values()))
    for name, p in result.chances.items():
        told = ", ".join(f"{title} {p[metric]:.3f}" for title, metric in zip(TITLES, metrics))
        console.print(Text(f"by chance as different from {name}: p of {told}"), soft_wrap=True)
    for title, metric in zip(TITLES, metrics):
        console.print(Text(f"{title} {getattr(first, f'{metric}_signature')}"), soft_wrap=True)
    for line in (
        f"{result.parameters:,} parameters, step {result.step:,}, beam {result.decoding['beam']}",
        f"{_pace(result.training)}translating {result.sentences_per_second:,.0f} sentences/s",
        "",
    ):
        console.print(Text(line), soft_wrap=True)
    for sample in result.samples:
        for name, value in dataclasses.asdict(sample).items():
            console.print(Text(f"{name:>11}  {value}"), soft_wrap=True)
        console.print()
    show_paths(paths, console)


def _pace(training: Mapping[str, float]) -> str:
    """How fast it trained, if it ever logged that; what a run does not know is left out."""
    if not training["seconds"]:
        return ""
    told = {
        "compile_seconds": "compiling {:,.0f} s",
        "model_flop_utilisation": "{:.0%} of the devices' peak (6 operations per parameter and token)",
    }
    parts = (text.format(training[name]) for name, text in told.items() if name in training)
    seconds, rate = training["seconds"], training["tokens_per_second"]
    pace = [f"training {seconds:,.0f} s", f"{rate:,.0f} target tokens/s", *parts]
    return f"{', '.join(pace)}; "


def tables(result: Result) -> dict[str, list[dict[str, Any]]]:
    """The result as the page shows it: by title, rows."""
    scores = [
        {
            "system": name,
            **{title: round(getattr(found, x), 1) for title, x in zip(TITLES, NAMES.values())},
            **({"exact match, %": round(found.exact, 1)} if result.exact_counts else {}),
        }
        for name, found in result.scores.items()
    ]
    return {"Scores": scores, "Samples": [dataclasses.asdict(x) for x in result.samples]}
