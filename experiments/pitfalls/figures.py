"""What the pitfalls look like: losses on the way, errors by size, memory by depth, leaks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attn_jax.diagnostics.curves import Fit, fits, trends
from attn_jax.diagnostics.number_maps import number_maps
from experiments.results import Row

DRAWN = ("causal()", "causal(1)", "window(2, 2)", "window(2, 2) & causal()")


def draw(result: Mapping[str, Any], traces: Mapping[str, Any]) -> dict[str, Figure]:
    """The pictures of a run, by name."""
    return {
        "saturation": errors(traces["saturation"]),
        "overfitting": losses(traces["overfitting"]),
        "rounding": roundings(result["rounding"]),
        "rematerialisation": memories(result["rematerialisation"]),
        "leaks": leakage(traces["leaks"]),
    }


def errors(ways: Mapping[str, np.ndarray]) -> Figure:
    """The error of each score on the way."""
    lines = {name: way.mean(0) for name, way in ways.items()}
    steps = 1 + np.arange(len(next(iter(lines.values()))))
    title = "Fetching a value by a noisy, rotated key, at each score's best rate"
    return fits([Fit(steps, lines)], title, x="step", y="squared error")


def losses(ways: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Training and test losses on the way, a panel for each of what mends them."""
    panels = []
    for name, (training, test) in ways.items():
        lines = {"training": training.mean(0), "test": test.mean(0)}
        panels.append(Fit(1 + np.arange(training.shape[1]), lines, title=name))
    return fits(panels, "Few examples, learned by heart", x="step", y="loss, nats")


def roundings(rows: Sequence[Row]) -> Figure:
    """Errors of weights against the size of scores."""
    names = ("bfloat16 scores", "small ones raised so far", "float32 scores")
    lines = {name: np.array([row[name] for row in rows]) for name in names}
    sizes = np.array([row["largest score"] for row in rows])
    title = "What rounding scores does to weights"
    return trends(sizes, lines, title, x="largest score", y="largest relative error of a weight")


def memories(rows: Sequence[Row]) -> Figure:
    """Memory against layers."""
    layers = np.array(sorted({row["layers"] for row in rows}))
    ways = dict.fromkeys(row["way"] for row in rows)
    lines = {
        way: np.array([row["memory, MiB"] for row in rows if row["way"] == way]) for way in ways
    }
    title = "Memory of a gradient through a stack of Transformer blocks"
    return trends(layers, lines, title, x="layers", y="temporaries, MiB")


def leakage(found: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The derivative of each output in each input, of an untrained model."""
    maps = {name: found[name][0][0] / found[name][0][0].max() for name in DRAWN}
    positions = np.arange(len(maps[DRAWN[0]]))
    return number_maps(
        maps,
        positions,
        positions,
        "What an output depends on: above the diagonal is the future",
        query_name="output at position",
        key_name="input at position",
        bar_name="size of the derivative ÷ largest",
    )
