"""`python -m experiments.translate --config=configs/translate/quickstart.py`."""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.overrides import UsageError
from experiments.translate.attention import attention
from experiments.translate.config import Config
from experiments.translate.evaluation import evaluate
from experiments.translate.exporting import export
from experiments.translate.scoring import score
from experiments.translate.training import train
from experiments.translate.translation import translate


class Stage(NamedTuple):
    """What a mode does, and which options it takes."""

    run: Callable[[Command], None]
    options: frozenset[str] = frozenset()


STAGES = {
    "train": Stage(train, frozenset({"profile"})),
    "evaluate": Stage(evaluate, frozenset({"input", "target", "output", "against"})),
    "translate": Stage(translate, frozenset({"input", "output", "nbest"})),
    "score": Stage(score, frozenset({"input", "target", "output"})),
    "attention": Stage(attention, frozenset({"input", "target", "output"})),
    "export": Stage(export, frozenset({"output"})),
}
EXPERIMENT = command_line.Experiment(
    name="translate",
    config=Config,
    modes=tuple(STAGES),
    options={
        "input": "a file of sentences, one a line; standard input by default, and the test split"
        " where --mode=evaluate",
        "target": "a file of their translations, to score, to evaluate by, or to draw; without,"
        " lines are `source TAB target`",
        "output": "where translations or scores go, standard output by default; a directory where"
        " --mode=evaluate, attention or export",
        "nbest": "how many translations of each line to write, with their scores",
        "against": "another workdir, or a file of translations, to compare with where"
        " --mode=evaluate",
        "profile": "a step N: steps N to N + 5 are traced, for TensorBoard and Perfetto, into the"
        " workdir's profile",
    },
    distributed=("train", "evaluate"),
    help="Trains a model on sentence pairs, evaluates it, translates and scores with it, draws where it"
    " looks, and writes it in the format of transformers.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the stage that the command line asks for; returns the exit code."""
    return command_line.run(EXPERIMENT, _run, argv)


def _run(command: Command) -> None:
    stage = STAGES[command.mode]
    for name, value in command.options.items():
        if value is not None and name not in stage.options:
            modes = ", ".join(mode for mode, other in STAGES.items() if name in other.options)
            raise UsageError(f"--mode={command.mode} takes no --{name}; {modes} do")
    stage.run(command)


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
