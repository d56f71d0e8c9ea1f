"""Pictures of curves: what was observed and predicted, and an error against what was swept."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

# Okabe and Ito's, apart to colour-blind eyes as well; lines differ in their dashes besides.
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
TRUTH, POINT = "0.15", "0.6"
SIZE = (5.2, 3.4)  # inches, of a panel


class Fit(NamedTuple):
    """What was observed of a curve, and what is said of it."""

    x: ArrayLike
    """Where it is drawn, increasing, `t`."""

    lines: Mapping[str, ArrayLike]
    """Predictions, `t` each, by name."""

    truth: ArrayLike | None = None
    """`t`, or None where nobody knows."""

    observed: tuple[ArrayLike, ArrayLike] | None = None
    """x and y of the observations, `n` each."""

    title: str = ""


def fits(panels: Sequence[Fit], title: str = "", *, x: str = "x", y: str = "y") -> Figure:
    """Observations as points, the truth and predictions as lines; a panel for each fit.

    Args:
      panels: at least one; all share their axes' scales.
      title: a heading.
      x, y: what the axes are called.

    Returns:
      A figure of its own, in no global list; `plots.save` writes it.

    Raises:
      ValueError: no panel, or a line that does not fit its x.

    >>> figure = fits([Fit([0, 1], {"guess": [0, 2]}, truth=[0, 1], observed=([0.5], [0.4]))])
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['observed', 'truth', 'guess']
    """
    if not panels:
        raise ValueError("expected at least one fit to draw")
    columns = math.ceil(math.sqrt(len(panels)))
    rows = math.ceil(len(panels) / columns)
    width, height = (side * (1 if len(panels) == 1 else 0.7) for side in SIZE)
    figure = Figure((columns * width, rows * height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, fit in zip(grid.flat, panels):
        _draw(axes, fit)
    for axes in grid[:, 0]:
        axes.set_ylabel(y, fontsize=8)
    for column in grid.T[:, : math.ceil(len(panels) / columns)]:
        column[-1].set_xlabel(x, fontsize=8)
    grid.flat[0].legend(fontsize=7, frameon=False)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    return figure


def sweep(
    values: ArrayLike,
    errors: Mapping[str, ArrayLike],
    title: str = "",
    *,
    paths: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    x: str = "bandwidth",
    y: str = "error",
) -> Figure:
    """Errors against a positive number that was swept, each line's least one marked.

    Args:
      values: what was swept, positive and increasing, `n`; drawn on a logarithmic axis.
      errors: `n` each, by name; positive, on a logarithmic axis.
      title: a heading.
      paths: where searches went, by name: values and errors, `steps` each.
      x, y: what the axes are called.

    Returns:
      A figure of its own; the legend says where each optimum is.

    Raises:
      ValueError: errors that do not fit the values, or are not positive.

    >>> figure = sweep([0.1, 1, 10], {"gaussian": [3, 2, 4]})
    >>> figure.axes[0].get_legend().get_texts()[0].get_text()
    'gaussian: least at 1'
    """
    values = np.asarray(values, np.float64)
    figure = Figure((6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (name, given) in enumerate(errors.items()):
        error = np.asarray(given, np.float64)
        if error.shape != values.shape or not (error > 0).all():
            raise ValueError(
                f"expected positive errors of {name}, one for each of {values.size} values; got "
                f"shape {error.shape}, the least {error.min(initial=math.inf)}"
            )
        style = _style(number)
        least = int(error.argmin())
        axes.plot(values, error, label=f"{name}: least at {values[least]:.3g}", **style)
        axes.plot(
            values[least], error[least], "*", ms=13, mec="white", mew=0.8, color=style["color"],
            zorder=6,
        )  # fmt: skip
    for name, (where, height) in (paths or {}).items():
        axes.plot(np.asarray(where), np.asarray(height), "o", ms=5, mec=TRUTH, mfc="none", mew=0.9,
                  zorder=5, label=name)  # fmt: skip
    _finish(axes, title, x, y)
    return figure


def trends(
    values: ArrayLike,
    lines: Mapping[str, ArrayLike],
    title: str = "",
    *,
    x: str = "n",
    y: str = "y",
) -> Figure:
    """Positive numbers against a positive number, both on logarithmic axes.

    Args:
      values: increasing, `n`.
      lines: `n` each, by name; where one is not a number, or not positive, it has a gap.
      title: a heading.
      x, y: what the axes are called.

    Returns:
      A figure of its own, in no global list.

    Raises:
      ValueError: a line that does not fit the values.

    >>> figure = trends([1, 10], {"linear": [1, 10], "quadratic": [1, 100]}, x="n")
    >>> figure.axes[0].get_xscale()
    'log'
    """
    values = np.asarray(values, np.float64)
    figure = Figure((6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (name, given) in enumerate(lines.items()):
        line = np.asarray(given, np.float64)
        if line.shape != values.shape:
            raise ValueError(f"expected {values.size} numbers of {name}, got shape {line.shape}")
        line = np.where(line > 0, line, np.nan)
        axes.plot(values, line, marker="o", ms=3, label=name, **_style(number))
    _finish(axes, title, x, y)
    return figure


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    """Logarithmic axes with plain numbers, names, a legend."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_data_interval()
        near = high < 1e4 * max(low, 1e-300)
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5) if near else (1,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    _plain(axes)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.legend(fontsize=7, frameon=False)
    if title:
        axes.set_title(title, fontsize=10, parse_math=False)


def _draw(axes: Axes, fit: Fit) -> None:
    x = np.asarray(fit.x)
    if fit.observed is not None:
        axes.plot(*map(np.asarray, fit.observed), "o", ms=3, color=POINT, mew=0, alpha=0.7,
                  label="observed")  # fmt: skip
    if fit.truth is not None:
        axes.plot(x, np.asarray(fit.truth), color=TRUTH, lw=1, ls=(0, (4, 2)), label="truth")
    for number, (name, line) in enumerate(fit.lines.items()):
        if np.shape(line) != x.shape:
            raise ValueError(
                f"expected {name} at each of {x.size} places; its shape is {np.shape(line)}"
            )
        axes.plot(x, np.asarray(line), label=name, **_style(number))
    _plain(axes)
    if fit.title:
        axes.set_title(fit.title, fontsize=8, parse_math=False)


def _style(number: int) -> dict:
    n = number % len(LINES)
    return {"color": LINES[n], "ls": DASHES[n], "lw": 1.5}


def _plain(axes: Axes) -> None:
    """Small numbers, and no box."""
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
