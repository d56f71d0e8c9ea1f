"""`python -m experiments.masked_language_model --config=configs/masked_language_model/default.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.masked_language_model.config import Config
from experiments.masked_language_model.filling import fill
from experiments.masked_language_model.training import train
from experiments.overrides import UsageError

EXPERIMENT = command_line.Experiment(
    name="masked_language_model",
    config=Config,
    modes=("train", "fill"),
    options={"text": "a sentence with ___ for what is to be filled in, where --mode=fill"},
    help="Trains a BERT on text, and lets it fill in blanks.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the stage that the command line asks for; returns the exit code."""
    return command_line.run(EXPERIMENT, _run, argv)


def _run(command: Command) -> None:
    if command.mode == "fill":
        fill(command)
    elif command.options["text"] is not None:
        raise UsageError("--mode=train takes no --text; --mode=fill does")
    else:
        train(command)


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
