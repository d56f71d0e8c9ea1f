"""Published checkpoints in and out of these models."""

from attn_jax.interop.loading import load
from attn_jax.interop.saving import save

__all__ = ["load", "save"]
