"""Flax modules: they hold parameters and call the pure functions."""

from attn_jax.modules.attention import MultiHeadAttention
from attn_jax.modules.blocks import BlockOptions, DecoderBlock, EncoderBlock, FeedForward
from attn_jax.modules.embeddings import LearnedEmbedding, TokenEmbedding
from attn_jax.modules.trainable import trainable
from attn_jax.modules.watching import (
    Look,
    attention_maps,
    capture,
    gated,
    look,
    watched_by,
)

__all__ = [
    "BlockOptions",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "LearnedEmbedding",
    "Look",
    "MultiHeadAttention",
    "TokenEmbedding",
    "attention_maps",
    "capture",
    "gated",
    "look",
    "trainable",
    "watched_by",
]
