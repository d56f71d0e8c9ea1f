"""Models, one readable file each."""

from attn_jax.models.bahdanau import Bahdanau, RecurrentConfig, Seq2Seq
from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.bigbird import BigBird, BigBirdConfig
from attn_jax.models.cbam import CBAM
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.models.image_gpt import ImageGPT, ImageGPTConfig
from attn_jax.models.linear_transformer import LinearTransformer, LinearTransformerConfig
from attn_jax.models.longformer import Longformer, LongformerConfig
from attn_jax.models.performer import Performer, PerformerConfig
from attn_jax.models.resnet import ResNet, ResNetConfig
from attn_jax.models.senet import SENet
from attn_jax.models.sparse_transformer import SparseTransformer, SparseTransformerConfig
from attn_jax.models.swin import Swin, SwinConfig
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.models.vit import DEIT, ViT, ViTConfig

__all__ = [
    "CBAM",
    "DEIT",
    "GPT",
    "Bahdanau",
    "Bert",
    "BertConfig",
    "BigBird",
    "BigBirdConfig",
    "GPTConfig",
    "ImageGPT",
    "ImageGPTConfig",
    "LinearTransformer",
    "LinearTransformerConfig",
    "Longformer",
    "LongformerConfig",
    "Performer",
    "PerformerConfig",
    "RecurrentConfig",
    "ResNet",
    "ResNetConfig",
    "SENet",
    "Seq2Seq",
    "SparseTransformer",
    "SparseTransformerConfig",
    "Swin",
    "SwinConfig",
    "Transformer",
    "TransformerConfig",
    "ViT",
    "ViTConfig",
]
