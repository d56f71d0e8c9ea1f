"""How models of a text are trained alike, and the picture of it."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attn_jax.data.documents import Documents
from attn_jax.diagnostics.curves import Fit, fits
from attn_jax.train import Plan, State, Stream, fit, make_step
from experiments.results import Row
from experiments.workdir import Workdir


def learned(system: Any, documents: Documents, plan: Plan, workdir: Workdir) -> State:
    """Trains a system on a text to the end, from the newest checkpoint if there is one.

    Args:
      system: with `pieces` of the text that is trained on, `judge` of what is held out, and a `loss`.
      documents: the text.
      plan: how long.
      workdir: where it is left; held by the caller.

    Returns:
      The best state.
    """
    pieces, judge = system.pieces(documents.train), system.judge(documents.heldout)
    identity = {"tokenizer": system.tokenizer.fingerprint, "pieces": pieces.identity}
    fit(
        system.initial_state(),
        make_step(system.loss, system.optimizer),
        Stream(pieces.__getitem__),
        plan=plan,
        run=workdir.run(system.config, **identity),
        evaluate=lambda state: judge(state.params),
    )
    return workdir.best(system)


def losses(result: Row) -> Figure:
    """The loss on the way, of what is trained on and of what is held out."""
    panels = []
    for split in ("training", "validation"):
        steps = np.array([line["step"] for line in result[split]])
        lines = {"loss": np.array([line["loss"] for line in result[split]])}
        panels.append(Fit(steps, lines, title=split))
    return fits(panels, "Cross-entropy on the way", x="step", y="loss, nats per token")
