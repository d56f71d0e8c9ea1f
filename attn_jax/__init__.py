"""Attention mechanisms in JAX and Flax as composable, exact, fast values."""

from attn_jax import backends
from attn_jax.backends.dispatch import attend, attend_with_lse, attention_weights, explain
from attn_jax.functional import biases, masks, normalizers, positions, scores, transforms
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.rule import Rule
from attn_jax.functional.tiles import Positions
from attn_jax.modules.trainable import trainable

__all__ = [
    "Dropout",
    "Positions",
    "Rule",
    "attend",
    "attend_with_lse",
    "attention_weights",
    "backends",
    "biases",
    "explain",
    "masks",
    "normalizers",
    "positions",
    "scores",
    "trainable",
    "transforms",
]
