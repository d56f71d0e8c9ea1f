"""`python -m experiments.scoring --config=configs/scoring/default.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.results import leave, show, show_paths
from experiments.scoring.config import Config
from experiments.scoring.figures import draw
from experiments.scoring.method import learning, over_depths, saturation, starts

EXPERIMENT = command_line.Experiment(
    name="scoring",
    config=Config,
    modes=("run",),
    help="Why scores are divided by √d, and what additive scores cost and bring.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Measures, learns, draws; leaves result.json, config.json and the pictures."""
    config = command.config
    result = {
        "depths": over_depths(config),
        "saturation": saturation(config),
        "starts": starts(config),
    }
    result["learning"], ways = learning(config)
    show("Scores of random queries and keys, and the softmax after them", result["depths"])
    show("One score above all others", result["saturation"][::10])
    show("Projections before the first step", result["starts"])
    show("Finding a key again by a noisy, rotated copy", result["learning"])
    pictures = draw(result["depths"], result["saturation"], ways)
    show_paths(leave(command.workdir, config, result, pictures))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
