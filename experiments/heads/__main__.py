"""`python -m experiments.heads --config=configs/heads/default.py`."""

import sys
from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from attn_jax.train import enable_compilation_cache
from experiments import command_line
from experiments.command_line import Command
from experiments.heads.config import Config
from experiments.heads.figures import draw
from experiments.heads.method import compare, look_into, prune
from experiments.results import leave, show, show_paths

EXPERIMENT = command_line.Experiment(
    name="heads",
    config=Config,
    modes=("run",),
    help="One head against many of the same width, what they learn, and what is lost without them.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment, prints its tables and where its pictures are; returns the exit code."""
    return command_line.run(EXPERIMENT, report, argv)


def report(command: Command) -> None:
    """Trains, looks, prunes, draws; leaves result.json, config.json and the pictures."""
    config = command.config.checked()
    compared, trained = compare(config)
    model = trained.of(0)
    heads, back, divergence = look_into(config, model)
    matters, lost = (np.array([row[name] for row in heads]) for name in ("influence", "lost"))
    order = matters.argsort()
    pruned = {
        "least influence first": prune(config, model, order),
        "most influence first": prune(config, model, order[::-1]),
    }
    result = {
        "compared": compared,
        "heads": heads,
        "divergence": divergence.tolist(),
        "pruned": {name: losses.tolist() for name, losses in pruned.items()},
    }
    show("One head against many, of the same width", compared)
    show(f"Each of {len(heads)} heads, seed {config.seeds[0]}", heads)
    steps = zip(*pruned.values())
    show(
        "Heads taken away one by one: the loss",
        [{"taken away": n, **dict(zip(pruned, map(float, x)))} for n, x in enumerate(steps)],
    )
    if len(heads) > 1:
        apart = divergence[np.triu_indices(len(heads), 1)]
        agreement = float(spearmanr(matters, lost).statistic)
        result["rank correlation"] = agreement if np.isfinite(agreement) else None
        print(
            f"rank correlation of influence and of what is lost without a head: {agreement:.2f}\n"
            f"divergence between heads: {apart.mean():.2f} bits, from {apart.min():.2f} to"
            f" {apart.max():.2f}"
        )
    show_paths(leave(command.workdir, config, result, draw(compared, back, pruned)))


if __name__ == "__main__":
    enable_compilation_cache()
    sys.exit(main())
