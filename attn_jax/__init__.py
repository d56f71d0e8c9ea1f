"""Attention mechanisms in JAX and Flax as composable, exact, fast values."""

from attn_jax import backends
from attn_jax.backends.dispatch import attend, attend_with_lse, attention_weights, explain
from attn_jax.backends.regression import regress
from attn_jax.backends.statistics import AttentionStats, attention_stats
from attn_jax.functional import (
    biases,
    features,
    masks,
    normalizers,
    patterns,
    positions,
    scores,
    transforms,
)
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.rule import Rule
from attn_jax.functional.tiles import Positions
from attn_jax.modules.trainable import trainable

__all__ = [
    "AttentionStats",
    "Dropout",
    "Positions",
    "Rule",
    "attend",
    "attend_with_lse",
    "attention_stats",
    "attention_weights",
    "backends",
    "biases",
    "explain",
    "features",
    "masks",
    "normalizers",
    "patterns",
    "positions",
    "regress",
    "scores",
    "trainable",
    "transforms",
]
