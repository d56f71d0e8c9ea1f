"""Corpora, tokenizers and batches."""

from attn_jax.data.batches import Batches as Batches
from attn_jax.data.batches import BatchIterator as BatchIterator
from attn_jax.data.corpora import aligned as aligned
from attn_jax.data.corpora import multi30k as multi30k
from attn_jax.data.corpora import tab_separated as tab_separated
from attn_jax.data.corpora import tfds as tfds
from attn_jax.data.evaluation import evaluation_batches as evaluation_batches
from attn_jax.data.files import write_atomically as write_atomically
from attn_jax.data.lines import read_lines as read_lines
from attn_jax.data.packing import PackedBatches as PackedBatches
from attn_jax.data.splits import Corpus as Corpus
from attn_jax.data.splits import Pairs as Pairs
from attn_jax.data.tokenizer import Tokenizer as Tokenizer
