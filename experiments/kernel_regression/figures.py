"""What kernel regression looks like: predictions, attention, errors against widths, heads."""

import math
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from matplotlib.figure import Figure

from attn_jax import Rule, attend, attention_weights
from attn_jax.data.noisy_curve import Observations, curve
from attn_jax.diagnostics import curves
from attn_jax.diagnostics.curves import Fit, fits
from attn_jax.diagnostics.number_maps import number_maps
from experiments.kernel_regression.config import Config
from experiments.kernel_regression.method import GRID, predict
from experiments.results import Row

SHOWN = 300  # observations in a picture, at most


def draw(
    config: Config,
    data: Observations,
    rules: Mapping[str, Rule],
    errors: Mapping[str, np.ndarray],
    epochs: Sequence[Row],
    heads: tuple[Observations, Rule] | None = None,
) -> dict[str, Figure]:
    """The pictures of a run, by name."""
    pictures = {
        "predictions": predictions(data, rules),
        "attention": attention(data, rules),
        "bandwidths": bandwidths(config.sweep.values(), errors, epochs),
    }
    return pictures if heads is None else {**pictures, "heads": one_width_per_head(config, *heads)}


def predictions(data: Observations, rules: Mapping[str, Rule]) -> Figure:
    """Data, truth, and what each rule makes of the data."""
    lines = {name: np.ravel(predict(rule, data, GRID)) for name, rule in rules.items()}
    return fits([Fit(GRID[:, 0], lines, truth=curve(GRID)[:, 0], observed=_shown(data))])


def attention(data: Observations, rules: Mapping[str, Rule]) -> Figure:
    """Where each point of the grid looks: the narrower the kernel, the narrower the band."""
    every = _every(data)
    keys = data.x[::every]
    weights = {
        name: jax.jit(attention_weights)(GRID[:, None], keys[:, None], rule=rule)[0]
        for name, rule in rules.items()
    }
    key_name = "observed at x" if every == 1 else f"observed at x (1 in {every})"
    return number_maps(
        weights, GRID[:, 0], keys[:, 0], query_name="predicted at x", key_name=key_name
    )


def bandwidths(
    widths: np.ndarray, errors: Mapping[str, np.ndarray], epochs: Sequence[Row]
) -> Figure:
    """The sweep of each kernel, and the way that SGD took down the Gaussian's curve."""
    way = {
        "gaussian, SGD epoch by epoch": tuple([e[name] for e in epochs] for name in ("w", "loss"))
    }
    return curves.sweep(
        widths,
        errors,
        "Each observation predicted from the others",
        paths=way,  # type: ignore[arg-type]
        x="bandwidth, scale or radius of the kernel",
        y="mean squared leave-one-out error",
    )


def one_width_per_head(config: Config, data: Observations, rule: Rule) -> Figure:
    """Each head's curve, and what its own width makes of it."""
    speeds = config.heads.speeds
    q, k = (np.repeat(x[:, None], len(speeds), axis=1) for x in (GRID, data.x))
    predicted, truth = (
        np.asarray(jax.jit(attend)(q, k, data.y, rule=rule)).mean(-1),
        curve(GRID, speeds),
    )
    widths = np.asarray(rule.score.bandwidth)  # type: ignore[attr-defined]
    panels = [
        Fit(
            GRID[:, 0],
            {"prediction": predicted[:, head]},
            truth=truth[:, head],
            observed=_shown(data, head),
            title=f"head {head}: speed {speed:g}, learned width {widths[head]:.3f}",
        )
        for head, speed in enumerate(speeds)
    ]
    return fits(panels)


def _shown(data: Observations, head: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """x and y of evenly spread observations of one curve."""
    every = _every(data)
    x, y = data.x[::every, 0], data.y[::every, head]
    return np.repeat(x, y.shape[1]), y.ravel()


def _every(data: Observations) -> int:
    return math.ceil(len(data.x) / SHOWN)
