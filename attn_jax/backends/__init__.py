"""Ways of evaluating a rule, one file each: the same values and gradients by different means."""

from attn_jax.backends.backend import Backend
from attn_jax.backends.blockwise import blockwise
from attn_jax.backends.dense import dense
from attn_jax.backends.fused import fused
from attn_jax.backends.linear import linear
from attn_jax.backends.ring import ring

auto = "auto"

__all__ = ["Backend", "auto", "blockwise", "dense", "fused", "linear", "ring"]
