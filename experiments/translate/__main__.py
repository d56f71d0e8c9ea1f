"""`python -m experiments.translate --config=configs/translate/quickstart.py`."""

import sys
from collections.abc import Sequence

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.translate.config import Config
from experiments.translate.evaluation import evaluate
from experiments.translate.training import train
from experiments.translate.translation import translate

STAGES = {"train": train, "evaluate": evaluate, "translate": translate}
EXPERIMENT = command_line.Experiment(
    name="translate",
    config=Config,
    modes=tuple(STAGES),
    options={
        "input": "a file of sentences to translate, one a line; standard input by default",
        "output": "where their translations go; standard output by default",
    },
    help="Trains a Transformer on sentence pairs, evaluates it, and translates with it.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the stage that the command line asks for; returns the exit code."""
    return command_line.run(EXPERIMENT, lambda command: STAGES[command.mode](command), argv)


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
