"""`python -m experiments.generate_images --config=configs/generate_images/default.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.generate_images.config import Config
from experiments.generate_images.figures import draw
from experiments.generate_images.method import compare, complete
from experiments.results import leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="generate_images",
    config=Config,
    modes=("run",),
    help="Image GPT with dense and with strided attention: bits, images drawn, halves completed.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Trains, judges, draws; leaves result.json, config.json and the pictures."""
    config = command.config.checked()
    images = config.data.load()
    shown = images.test.first(config.samples)
    known, models, places = compare(config, images)
    taken, wholes = complete(config, images, models)
    show(f"Bits per pixel and channel, {images.test.number:,} held-out images", known)
    show("Lower halves drawn: what the nearest image that was learned from shows", taken)
    result = {
        "bits": known,
        "completions": taken,
        "places": {name: x.tolist() for name, x in places.items()},
    }
    pictures = draw(config, shown, models, places, wholes)
    show_paths(leave(command.workdir, config, result, pictures))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
