"""What the models of images share: their twins' precision, and bodies without a classification."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from attn_jax import interop
from tests.parity.twin import QUICK, Twins, torch


def widen_softmax(monkeypatch: Any) -> None:
    """The twins' softmax in the precision of their scores, where they ask for float32."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(
        torch.nn.functional,
        "softmax",
        lambda scores, dim, dtype=None, **_: softmax(scores, dim=dim),
    )


def check_pooled(twins: Twins, images: Any) -> None:
    """Our model's output is the twin's pooler output; also of what we write and the twin reads.

    Args:
      twins: of a model that returns `pooler_output`.
      images: `b y x c`, numpy.
    """
    pixels = torch.tensor(np.moveaxis(images, -1, 1).copy())
    graph, state = nnx.split(twins.ours)
    call = jax.jit(lambda state: nnx.merge(graph, state)(images), compiler_options=QUICK)
    interop.save(twins.ours, twins.directory / "ours")
    returned = type(twins.theirs).from_pretrained(twins.directory / "ours", dtype=torch.float64)
    with torch.no_grad():
        theirs, again = (m.eval()(pixels).pooler_output for m in (twins.theirs, returned))
    twins.same("pooled", call(state), theirs)
    twins.same("saved back", again.numpy(), theirs)
