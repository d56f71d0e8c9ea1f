"""`python -m experiments.language_model --config=configs/language_model/default.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.language_model.config import Config
from experiments.language_model.generation import generate
from experiments.language_model.training import train
from experiments.overrides import UsageError

EXPERIMENT = command_line.Experiment(
    name="language_model",
    config=Config,
    modes=("train", "generate"),
    options={
        "prompt": "what to continue, where --mode=generate; without, a document is begun",
        "samples": "how many times, where --mode=generate",
    },
    help="Trains a GPT on text, and lets it write.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the stage that the command line asks for; returns the exit code."""
    return command_line.run(EXPERIMENT, _run, argv)


def _run(command: Command) -> None:
    if command.mode == "generate":
        generate(command)
        return
    for name, value in command.options.items():
        if value is not None:
            raise UsageError(f"--mode=train takes no --{name}; --mode=generate does")
    train(command)


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
