"""What heads look like: the loss by their number, where each looks, and what pruning costs."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from attn_jax.diagnostics.curves import Fit, fits, trends
from attn_jax.diagnostics.number_maps import number_maps
from experiments.results import Row


def draw(
    compared: Sequence[Row], back: np.ndarray, pruned: Mapping[str, np.ndarray]
) -> dict[str, Figure]:
    """The pictures of a run, by name.

    Args:
      compared: a row for each number of heads.
      back: the mean weight of each head on keys so many tokens back, `h d`.
      pruned: the loss as heads are taken away, none to all, in each order.
    """
    numbers = np.array([row["heads"] for row in compared])
    heads, distances = (np.arange(n) for n in back.shape)
    return {
        "losses": trends(
            numbers,
            {"loss": np.array([row["loss"] for row in compared])},
            "One head against many of the same width",
            x="heads",
            y="loss, nats per token",
        ),
        "distances": number_maps(
            {"where heads look": back}, heads, distances, query_name="head", key_name="tokens back"
        ),
        "pruning": fits(
            [Fit(np.arange(len(heads) + 1), pruned)],
            "Heads taken away one by one",
            x="heads taken away",
            y="loss, nats per token",
        ),
    }
