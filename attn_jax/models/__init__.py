"""Models, one readable file each."""

from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.models.transformer import Transformer, TransformerConfig

__all__ = ["GPT", "Bert", "BertConfig", "GPTConfig", "Transformer", "TransformerConfig"]
