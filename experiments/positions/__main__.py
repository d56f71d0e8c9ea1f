"""`python -m experiments.positions --config=configs/positions/default.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.positions.config import Config
from experiments.positions.figures import draw
from experiments.positions.method import compare, permuted, read, shifts
from experiments.results import leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="positions",
    config=Config,
    modes=("run",),
    help="Six ways to say where a token stands, within the length that was trained on and beyond.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Measures, trains, draws; leaves result.json, config.json and the pictures."""
    config = command.config.checked()
    result = {"permuted": permuted(config), "shifts": shifts(config)}
    result["losses"], lines, refusals = compare(config, read(config))
    show("A block's inputs permuted: how far its outputs are from being so", result["permuted"])
    show("Sinusoids k positions on are a linear map of those here", result["shifts"])
    show(f"Loss by place, nats per character, trained on {config.train.length}", result["losses"])
    for kind, refusal in refusals.items():
        print(f"{kind}: absent beyond {config.train.length}: {refusal}")
    pictures = draw(config, lines)
    show_paths(leave(command.workdir, config, {**result, "refusals": refusals}, pictures))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
