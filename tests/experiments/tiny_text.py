"""Runs of a few parameters on a text of one's own, through the command line of a model of text."""

import contextlib
import io
from pathlib import Path

TEXT = "\n\n".join(
    f"the {n}th paragraph, of naïve {'very ' * (n % 4)}small cats." for n in range(60)
)


def teller(main, name):
    """A function of the arguments of an experiment to its exit code, and to what it wrote."""
    config = Path(__file__).parents[2] / f"configs/{name}/default.py"

    def told(*arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([f"--config={config}", *arguments])
        return code, out.getvalue(), err.getvalue()

    return told


def arguments(directory):
    """Of four steps, whose workdir is the directory's `run`."""
    (directory / "text.txt").write_text(TEXT, "utf-8")
    return [
        f"--workdir={directory / 'run'}",
        f"--config.data.path={directory / 'text.txt'}",
        "--config.data.vocabulary=300",
        "--config.model.width=16",
        "--config.model.hidden=16",
        "--config.model.layers=1",
        "--config.model.context=16",
        "--config.train.steps=4",
        "--config.train.evaluate_every=2",
        "--config.optimizer.warmup=2",
    ]
