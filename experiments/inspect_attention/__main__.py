"""`python -m experiments.inspect_attention --workdir=RUN`, or `--model=DIR`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from attn_jax.diagnostics import plots
from attn_jax.diagnostics.report import write_report
from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.inspect_attention.published import inspect_published
from experiments.inspect_attention.runs import inspect_run
from experiments.looking import pictures, show_looked, write_numbers
from experiments.results import show_paths

EXPERIMENT = command_line.Experiment(
    name="inspect_attention",
    config=None,
    modes=("run",),
    options={
        "model": "a directory with a published model: config.json and model.safetensors",
        "text": "what the model is given; of a run a source, by default its samples, and of a"
        " published model a classic sentence",
        "target": "the translation that a run is made to write of --text",
        "ids": "token numbers with commas between, in place of --text",
        "image": "a picture, for a model of images",
        "out": "where the page and the pictures go; the workdir by default",
    },
    help="Looks into a trained run of experiments.translate (--workdir) or a published model"
    " (--model): prints verdicts and measures of every head, and writes report.html.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Looks, prints, and writes; returns the exit code."""
    return command_line.run(EXPERIMENT, inspect, argv)


def inspect(command: Command) -> None:
    """Looks into what the command line names."""
    looking = inspect_published if command.options["model"] else inspect_run
    found = looking(command)
    out = Path(command.options["out"] or command.workdir)
    paths = []
    if found.looked is not None:
        show_looked(found.looked)
        paths.append(write_numbers(out / "attention.json", found.looked))
        for name, figure in pictures(found.looked, found.report.examples).items():
            paths.append(plots.save(figure, out / "attention" / f"{name}.png"))
    show_paths([*paths, write_report(out / "report.html", found.report)])


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
