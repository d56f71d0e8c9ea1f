"""The result of a run, as a person reads it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments.results import show_paths
from experiments.translate.quality import Quality


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
      scores: of the system, and of what it is compared with.
      exact_counts: whether a source has one right answer, so that exact match means something.
      step: of the checkpoint that was chosen on the validation split.
      parameters: of the model.
      training: seconds, target tokens and target tokens per second of all training steps.
      sentences_per_second: of translating the test, without compiling.
      compile_seconds: of compiling all searches of this process.
      decoding: how it was translated.
      samples: a few translations, evenly spread over the test.
    """

    scores: Mapping[str, Quality]
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
    table = Table("", "BLEU", "chrF", *(["exact match"] if result.exact_counts else []))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, found in result.scores.items():
        exact = [f"{found.exact:.1f} %"] if result.exact_counts else []
        table.add_row(name, f"{found.bleu:.1f}", f"{found.chrf:.1f}", *exact)
    console.print(table)
    first = next(iter(result.scores.values()))
    for line in (
        f"BLEU {first.bleu_signature}",
        f"chrF {first.chrf_signature}",
        f"{result.parameters:,} parameters, step {result.step:,}, beam {result.decoding['beam']}",
        f"training {result.training['seconds']:,.0f} s,"
        f" {result.training['tokens_per_second']:,.0f} target tokens/s;"
        f" translating {result.sentences_per_second:,.0f} sentences/s",
        "",
    ):
        console.print(Text(line), soft_wrap=True)
    for sample in result.samples:
        for name, value in dataclasses.asdict(sample).items():
            console.print(Text(f"{name:>11}  {value}"), soft_wrap=True)
        console.print()
    show_paths(paths, console)
