"""`python -m experiments.recall --config=configs/recall/default.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.recall.config import Config
from experiments.recall.figures import draw
from experiments.recall.method import compare, table
from experiments.results import leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="recall",
    config=Config,
    modes=("run",),
    help="Copying and looking up over distance: a fixed vector, Bahdanau's attention, a Transformer.",
)
TITLES = {
    "copy": "Copying so many symbols",
    "look up": "Looking up, so many fillers away",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Trains, measures, draws; leaves result.json, config.json and the pictures."""
    config = command.config.checked()
    found = compare(config)
    for task, measured in found.items():
        for name in ("accuracy", f"steps to {config.train.learned:g}", "ms per step"):
            show(f"{TITLES[task]}: {name}", table(measured, name))
    show_paths(leave(command.workdir, config, found, draw(found)))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
