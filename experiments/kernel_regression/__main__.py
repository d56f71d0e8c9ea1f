"""`python -m experiments.kernel_regression --config=configs/kernel_regression/default.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.kernel_regression.config import Config
from experiments.kernel_regression.figures import draw
from experiments.kernel_regression.method import run
from experiments.results import leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="kernel_regression",
    config=Config,
    modes=("run",),
    help="Nadaraya-Watson regression as attention: fixed and learned widths, kernels, depths.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Learns, compares, draws; leaves result.json, config.json and the pictures."""
    result, drawing = run(command.config)
    show("Mean squared errors of three estimators", result["estimators"])
    show("Every kernel, at the width that leaving one out chooses", result["kernels"])
    show("One learned width per head, and one for all of them", result["heads"])
    show("More dimensions, equally many observations", result["depths"])
    pictures = draw(command.config, **drawing)
    show_paths(leave(command.workdir, command.config, result, pictures))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
