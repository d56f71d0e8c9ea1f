"""`python -m experiments.pitfalls --config=configs/pitfalls/default.py`."""

import math
import sys
from collections.abc import Sequence
from typing import Any

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.pitfalls.config import Config
from experiments.pitfalls.figures import draw
from experiments.pitfalls.leaks import leaks
from experiments.pitfalls.overfitting import overfitting
from experiments.pitfalls.rematerialisation import rematerialisation
from experiments.pitfalls.rounding import rounding
from experiments.pitfalls.saturation import saturation
from experiments.results import Row, leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="pitfalls",
    config=Config,
    modes=("run",),
    help="Saturation, overfitting, bfloat16 scores, remat, a wrong mask: traps and what mends them.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def run(config: Config) -> tuple[dict[str, list[Row]], dict[str, Any]]:
    """Falls into each trap and out of it: a table for each, and what trainings went through."""
    result: dict[str, list[Row]] = {}
    traces: dict[str, Any] = {}
    for trained in (saturation, overfitting, leaks):
        result[trained.__name__], traces[trained.__name__] = trained(config)
    for measured in (rounding, rematerialisation):
        result[measured.__name__] = measured(config)
    return result, traces


def report(command: Command) -> None:
    """Runs and draws; leaves result.json, config.json and the pictures."""
    result, traces = run(command.config)
    least = math.log(command.config.leaks.vocabulary)
    titles = {
        "saturation": "The saturated softmax: fetching a value by its key",
        "overfitting": "Overfitting: few examples, many steps",
        "rounding": "bfloat16 scores: largest relative errors of weights",
        "rematerialisation": "What a gradient keeps; operations and time ÷ those of all kept",
        "leaks": f"A wrong mask: honest losses are at least {least:.3f}",
    }
    for name, title in titles.items():
        show(title, result[name])
    show_paths(leave(command.workdir, command.config, result, draw(result, traces)))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
