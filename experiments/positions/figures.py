"""What positions look like: the loss beyond the length that was trained on, and sinusoids."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from attn_jax import positions
from attn_jax.diagnostics.curves import Fit, fits, trends
from experiments.positions.config import Config
from experiments.positions.method import ranges

FROM, FARTHEST = (0, 100, 700), 200


def draw(config: Config, lines: Mapping[str, np.ndarray]) -> dict[str, Figure]:
    """The pictures of a run, by name."""
    ends = np.array([end for _, end in ranges(config)])
    return {
        "lengths": trends(
            ends,
            lines,
            f"Trained on pieces of {config.train.length} characters",
            x="read up to, characters (each point from half as far on, the first from 0)",
            y="loss, nats per character",
        ),
        "sinusoids": sinusoids(config.model.width),
    }


def sinusoids(width: int) -> Figure:
    """How alike the sinusoids of two positions are: it depends on their distance alone."""
    distances = np.arange(FARTHEST)
    lines = {}
    for p in FROM:
        here, there = (
            np.asarray(positions.sinusoidal(jnp.asarray(x), width))
            for x in (np.array([p]), p + distances)
        )
        lines[f"p = {p}"] = (there @ here.T)[:, 0]
    return fits(
        [Fit(distances, lines)],
        "The inner product of two positions' sinusoids",
        x="distance k",
        y="PE(p) · PE(p + k)",
    )
