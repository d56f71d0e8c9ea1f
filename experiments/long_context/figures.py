"""What long contexts look like: time, memory, what is found, and errors of estimates."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attn_jax.diagnostics.curves import DASHES, LINES, TRUTH, trends
from experiments.long_context.config import Config
from experiments.long_context.reach import Found
from experiments.results import Row

STYLES = ((TRUTH, "-"), (TRUTH, ":"), *zip(LINES, DASHES))


def draw(
    config: Config,
    costs: Sequence[Row],
    found: Mapping[tuple[str, int], Found],
    errors: Mapping[tuple[str, float], np.ndarray],
) -> dict[str, Figure]:
    """The pictures of a run, by name."""
    return {
        "long-context": overview(config, costs, found),
        "features": trends(
            np.array(config.estimate.features),
            {f"{name}, size {size:g}": each.mean(0) for (name, size), each in errors.items()},
            "The Performer's estimate of softmax attention",
            x="features",
            y="error of outputs ÷ their size",
        ),
    }


def overview(
    config: Config, costs: Sequence[Row], found: Mapping[tuple[str, int], Found]
) -> Figure:
    """Time and memory against length; below, what each mechanism finds, a panel for each depth."""
    figure = Figure((8.4, 6.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1.15, 1))
    time, memory = above.subplots(1, 2)
    _lines(time, costs, "seconds", "seconds, forward and backward")
    _lines(memory, costs, "memory, MiB", "temporaries, MiB")
    above.legend(
        *time.get_legend_handles_labels(), loc="outside right upper", fontsize=7, frameon=False
    )
    panels = below.subplots(1, len(config.reach.layers), squeeze=False, sharey=True)[0]
    for axes, layers in zip(panels, config.reach.layers):
        _accuracies(axes, {name: x for (name, n), x in found.items() if n == layers})
        axes.set_xticks(range(len(config.reach.distances)), config.reach.distances)
        word = "layer" if layers == 1 else "layers"
        axes.set_title(f"answers found by {layers} {word}, %", fontsize=8)
        axes.set_xlabel("tokens from the question back to its answer", fontsize=8)
    below.supxlabel("framed: the mask leads there; elsewhere only guessing is left", fontsize=7)
    return figure


def _lines(axes: Axes, costs: Sequence[Row], column: str, name: str) -> None:
    """A line for each mechanism on logarithmic axes, with a gap where nothing was measured."""
    for mechanism, (colour, dashes) in zip(dict.fromkeys(r["mechanism"] for r in costs), STYLES):
        rows = [row for row in costs if row["mechanism"] == mechanism]
        numbers = [np.nan if row[column] is None else row[column] for row in rows]
        lengths = [row["n"] for row in rows]
        axes.plot(lengths, numbers, color=colour, ls=dashes, lw=1.4, marker="o", ms=2.5,
                  label=mechanism)  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({row["n"] for row in costs})
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.minorticks_off()
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("tokens", fontsize=8)
    axes.set_title(name, fontsize=8)


def _accuracies(axes: Axes, found: Mapping[str, Found]) -> None:
    """Means over seeds as colours and numbers, mechanisms by distances."""
    means = np.stack([each.accuracy.mean(0) for each in found.values()])
    axes.imshow(means, "Blues", vmin=0, vmax=2, aspect="auto")
    for row, each in enumerate(found.values()):
        for column, reached in enumerate(each.reaches):
            percent = f"{100 * means[row, column]:.0f}"
            axes.text(column, row, percent, ha="center", va="center", fontsize=7)
            if reached:
                frame = Rectangle((column - 0.46, row - 0.43), 0.92, 0.86, fill=False)
                frame.set(edgecolor=TRUTH, linewidth=1.0)
                axes.add_patch(frame)
    axes.set_yticks(range(len(found)), list(found))
    axes.tick_params(labelsize=7, length=0)
    axes.spines[:].set_visible(False)
