"""`python -m experiments.pitfalls --config=configs/pitfalls/default.py`."""

import math
import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.pitfalls import figures
from experiments.pitfalls.config import Config
from experiments.pitfalls.leaks import leaks
from experiments.pitfalls.overfitting import overfitting
from experiments.pitfalls.rematerialisation import rematerialisation
from experiments.pitfalls.rounding import rounding
from experiments.pitfalls.saturation import saturation
from experiments.results import leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="pitfalls",
    config=Config,
    modes=("run",),
    help="Saturation, overfitting, bfloat16 scores, remat, a wrong mask: traps and what mends them.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Falls into each trap and out of it; leaves result.json, config.json and the pictures."""
    config, result, pictures = command.config, {}, {}
    result["saturation"], ways = saturation(config)
    show("The saturated softmax: fetching a value by its key", result["saturation"])
    pictures["saturation"] = figures.errors(ways)
    result["overfitting"], losses = overfitting(config)
    show("Overfitting: few examples, many steps", result["overfitting"])
    pictures["overfitting"] = figures.losses(losses)
    result["rounding"] = rounding(config)
    show("bfloat16 scores: relative errors of weights", result["rounding"])
    pictures["rounding"] = figures.roundings(result["rounding"])
    result["rematerialisation"] = rematerialisation(config)
    show(
        "What a gradient keeps; operations and time ÷ those of all kept",
        result["rematerialisation"],
    )
    pictures["rematerialisation"] = figures.memories(result["rematerialisation"])
    result["leaks"], found = leaks(config)
    least = math.log(config.leaks.vocabulary)
    show(f"A wrong mask: honest losses are at least {least:.3f}", result["leaks"])
    pictures["leaks"] = figures.leakage(found)
    show_paths(leave(command.workdir, config, result, pictures))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
