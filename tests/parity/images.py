"""Models of images without a classification: what their pooler gives, here and after saving back."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from attn_jax import interop
from tests.parity.twin import Twins, torch


def check_pooled(twins: Twins, images: Any) -> None:
    """Our model's output is the twin's pooler output; also of what we write and the twin reads.

    Args:
      twins: of a model that returns `pooler_output`.
      images: `b y x c`, numpy.
    """
    pixels = torch.tensor(np.moveaxis(images, -1, 1).copy())
    graph, state = nnx.split(twins.ours)
    ours = jax.jit(lambda state: nnx.merge(graph, state)(images))(state)
    interop.save(twins.ours, twins.directory / "ours")
    returned = type(twins.theirs).from_pretrained(twins.directory / "ours", dtype=torch.float64)
    with torch.no_grad():
        theirs, again = (m.eval()(pixels).pooler_output for m in (twins.theirs, returned))
    twins.same("pooled", ours, theirs)
    twins.same("saved back", again.numpy(), theirs)
