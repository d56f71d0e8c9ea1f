"""What remembering looks like: accuracy and time against length, and the way to learning."""

import numpy as np
from matplotlib.figure import Figure

from attn_jax.diagnostics.curves import Fit, fits
from experiments.recall.method import OVER, Found

AXES = {"copy": "symbols to copy", "look up": "fillers on either side of the pairs"}


def draw(found: Found) -> dict[str, Figure]:
    """The pictures of a run, by name."""
    return {
        "accuracy": against_length(found, "accuracy"),
        "time": against_length(found, "ms per step"),
        "learning": learning(found),
    }


def against_length(found: Found, name: str) -> Figure:
    """A number of every model against the length or the distance, a panel for each task."""
    panels = []
    for task, measured in found.items():
        lengths = [int(n) for n in next(iter(measured.values()))]
        order = np.argsort(lengths)
        lines = {
            model: np.array([row[name] for row in rows.values()])[order]
            for model, rows in measured.items()
        }
        panels.append(Fit(np.array(lengths)[order], lines, title=f"{task}: {AXES[task]}"))
    return fits(panels, x="symbols or fillers", y=name)


def learning(found: Found) -> Figure:
    """The accuracy of every model on the way, at the last length or distance of each task."""
    panels = []
    for task, measured in found.items():
        last = list(next(iter(measured.values())))[-1]
        lines = {model: np.array(rows[last]["on the way"]) for model, rows in measured.items()}
        steps = OVER * np.arange(1, 1 + len(next(iter(lines.values()))))
        panels.append(Fit(steps, lines, title=f"{task}: {last} {AXES[task]}"))
    return fits(panels, x="steps", y="accuracy on new sequences")
