"""Corpora, tokenizers and batches."""

from attn_jax.data.files import write_atomically as write_atomically
