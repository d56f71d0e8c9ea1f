"""Models, one readable file each."""

from attn_jax.models.bahdanau import Bahdanau, RecurrentConfig, Seq2Seq
from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.cbam import CBAM
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.models.image_gpt import ImageGPT, ImageGPTConfig
from attn_jax.models.resnet import ResNet, ResNetConfig
from attn_jax.models.senet import SENet
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
    "GPTConfig",
    "ImageGPT",
    "ImageGPTConfig",
    "RecurrentConfig",
    "ResNet",
    "ResNetConfig",
    "SENet",
    "Seq2Seq",
    "Swin",
    "SwinConfig",
    "Transformer",
    "TransformerConfig",
    "ViT",
    "ViTConfig",
]
