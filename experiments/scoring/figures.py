"""What scoring looks like: scores and slopes over depth, the saturated softmax, losses on the way."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from attn_jax.diagnostics.curves import Fit, fits, trends
from experiments.results import Row
from experiments.scoring.method import DOTS


def draw(
    depths: Sequence[Row], saturation: Sequence[Row], ways: Mapping[tuple[str, int], np.ndarray]
) -> dict[str, Figure]:
    """The pictures of a run, by name."""
    values = np.array(sorted({row["d"] for row in depths}))
    lines = {name: _column([r for r in depths if r["score"] == name], "slope") for name in DOTS}
    distances = 1 + _column(saturation, "score above the others")
    left = {"size of the softmax's derivative": _column(saturation, "slope")}
    return {
        "slopes": trends(
            values,
            lines,
            "What is left of the gradient after the softmax",
            x="depth d of random queries and keys",
            y="norm of the softmax's Jacobian",
        ),
        "saturation": trends(
            distances,
            left,
            "One score above 63 others",
            x="1 + distance of the highest score from the others",
            y="norm of the softmax's Jacobian",
        ),
        "learning": _losses(ways),
    }


def _column(rows: Sequence[Row], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows])


def _losses(ways: Mapping[tuple[str, int], np.ndarray]) -> Figure:
    panels = []
    for depth in dict.fromkeys(d for _, d in ways):
        lines = {name: way for (name, d), way in ways.items() if d == depth}
        steps = np.arange(len(next(iter(lines.values()))))
        panels.append(Fit(steps, lines, title=f"d = {depth}"))
    return fits(panels, "Finding a key again by a noisy, rotated copy", x="step", y="loss, nats")
