"""Models, one readable file each."""

from attn_jax.models.transformer import Transformer, TransformerConfig

__all__ = ["Transformer", "TransformerConfig"]
