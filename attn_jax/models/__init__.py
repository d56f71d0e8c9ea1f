"""Models, one readable file each."""

from attn_jax.models.bahdanau import Bahdanau, RecurrentConfig, Seq2Seq
from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.models.transformer import Transformer, TransformerConfig

__all__ = [
    "GPT",
    "Bahdanau",
    "Bert",
    "BertConfig",
    "GPTConfig",
    "RecurrentConfig",
    "Seq2Seq",
    "Transformer",
    "TransformerConfig",
]
