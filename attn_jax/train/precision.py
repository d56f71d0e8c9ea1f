"""In which precision a step computes, and the scale that keeps gradients from vanishing in float16."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LossScale:
    """What the loss is multiplied by before its gradient is taken, which is divided by it again.

    Attributes:
      value: a power of two; float32.
      since: how many steps were applied since it last changed; int32.
    """

    value: Float[Array, ""]
    since: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Precision:
    """The dtype that parameters are cast to for computing a loss and its gradient.

    Parameters, gradients once they are summed, optimiser moments and averages keep their own dtype.
    Inputs that are floating-point numbers stay what they are: a loss that has images casts them.

    Attributes:
      compute: "float32" leaves parameters as they are; "bfloat16" has float32's range and two to
        three digits; "float16" has three digits and a range for which the loss is scaled.
      scale: of the loss, a sum over tokens, at the beginning, with float16; a gradient that
        overflows halves it and is skipped, which is no failure as long as the scale is above 1.
      growth_every: applied steps without overflow after which the scale doubles.

    Raises:
      ValueError: there is no such dtype, or a number is out of its range.

    Reference: Micikevicius et al. (2018), sections 3.1 and 3.2.

    >>> Precision("bfloat16").cast({"w": jnp.ones(2), "n": jnp.int32(1)})["w"].dtype
    dtype(bfloat16)
    >>> Precision("float16", scale=8.0).initial_scale()
    LossScale(value=Array(8., dtype=float32), since=Array(0, dtype=int32))
    """

    compute: Literal["float32", "bfloat16", "float16"] = "float32"
    scale: float = 2.0**10
    growth_every: int = 2000

    def __post_init__(self):
        if self.compute not in ("float32", "bfloat16", "float16"):
            raise ValueError(f"no precision {self.compute!r}; there are float32, bfloat16, float16")
        if not self.scale >= 1 or self.growth_every < 1:
            raise ValueError(
                "expected scale and growth_every of at least 1, "
                f"got {self.scale} and {self.growth_every}"
            )

    def cast(self, tree: PyTree) -> PyTree:
        """The same tree with its float32 leaves in the dtype to compute in."""
        if self.compute == "float32":
            return tree

        def cast(x: Array) -> Array:
            return x.astype(self.compute) if x.dtype == jnp.float32 else x

        return jax.tree.map(cast, tree)

    def initial_scale(self) -> LossScale | None:
        """The scale before the first step; None where none is needed."""
        if self.compute != "float16":
            return None
        return LossScale(jnp.float32(self.scale), jnp.zeros((), jnp.int32))

    def next_scale(
        self, scale: LossScale, applied: Bool[Array, ""], overflow: Bool[Array, ""]
    ) -> LossScale:
        """Half after an overflow, double after enough steps, else the same."""
        since = scale.since + applied
        grows = applied & (since >= self.growth_every)
        factor = jnp.where(overflow, 0.5, jnp.where(grows, 2.0, 1.0))
        return LossScale(scale.value * factor, jnp.where(overflow | grows, 0, since))
