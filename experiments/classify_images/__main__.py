"""`python -m experiments.classify_images --config=configs/classify_images/digits.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.classify_images.config import Config
from experiments.classify_images.figures import draw
from experiments.classify_images.method import compare
from experiments.command_line import Command
from experiments.results import leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="classify_images",
    config=Config,
    modes=("run",),
    help="Attention among patches, inside windows, and gates of channels and places, on images.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Trains, judges, draws; leaves result.json, config.json and the pictures."""
    config = command.config.checked()
    images = config.data.load()
    tables, models = compare(config, images)
    judged = f"{images.test.number:,} images of {config.data.name}, {len(config.seeds)} seeds"
    titles = {
        "steps": f"{config.train.steps:,} steps each: {judged}",
        "time": f"{config.train.seconds:g} s of training each: {judged}",
    }
    for name, table in tables.items():
        show(titles[name], table)
    show_paths(leave(command.workdir, config, tables, draw(models, images)))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
