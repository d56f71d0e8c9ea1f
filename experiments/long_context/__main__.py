"""`python -m experiments.long_context --config=configs/long_context/default.py`."""

import sys
from collections.abc import Sequence
from typing import Any

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.long_context.config import Config
from experiments.long_context.costs import costs
from experiments.long_context.estimate import estimate
from experiments.long_context.figures import draw
from experiments.long_context.reach import reach
from experiments.results import Row, leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="long_context",
    config=Config,
    modes=("run",),
    help="Eight mechanisms for long sequences: what each costs, and which answers it finds.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def run(config: Config) -> tuple[dict[str, list[Row]], dict[str, Any]]:
    """A table for each question; and what of each seed was found, and how far estimates were off."""
    accuracies, found = reach(config)
    estimated, errors = estimate(config)
    result = {"costs": costs(config.costs), "reach": accuracies, "estimate": estimated}
    return result, {"reach": found, "estimate": errors}


def report(command: Command) -> None:
    """Measures, trains, estimates, draws; leaves result.json, config.json and the pictures."""
    config = command.config.checked()
    result, by_seed = run(config)
    titles = {
        "costs": "One head of attention, forward and backward",
        "reach": f"Answers found at a distance; guessing finds {1 / config.reach.classes:.2g}",
        "estimate": "The Performer's estimate: error of outputs ÷ their size",
    }
    for name, title in titles.items():
        show(title, result[name])
    pictures = draw(config, result["costs"], by_seed["reach"], by_seed["estimate"])
    show_paths(leave(command.workdir, config, result, pictures))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
