"""ViT and DeiT as published: Dosovitskiy et al. and Touvron et al. (2021), as in ``transformers``."""

from __future__ import annotations

from typing import Any

from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.layouts import Entries, convolution, linear, norm, tensor
from attn_jax.models.vit import ViT, ViTConfig

FIELDS = {
    "image_size": "image",
    "patch_size": "patch",
    "num_channels": "channels",
    "num_hidden_layers": "layers",
    "num_attention_heads": "blocks.heads",
    "hidden_size": "blocks.width",
    "intermediate_size": "blocks.hidden",
    "hidden_act": "blocks.activation",
    "layer_norm_eps": "blocks.epsilon",
    "hidden_dropout_prob": "blocks.dropout",
    "attention_probs_dropout_prob": "blocks.attention_dropout",
    "num_labels": "classes",
}


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """Heights and widths are pairs, where they are given apart."""
    sizes = {name: config[name] for name in ("image_size", "patch_size") if name in config}
    return config | {name: tuple(n) if isinstance(n, list) else n for name, n in sizes.items()}


def _body(prefix: str) -> Entries:
    layer, ours = f"{prefix}encoder.layer.{{i}}.", "layers.{i}."
    return (
        *tensor(f"{prefix}embeddings.cls_token", "class_token", leading=2),
        *tensor(f"{prefix}embeddings.distillation_token", "distillation_token", leading=2),
        *tensor(f"{prefix}embeddings.position_embeddings", "positions", leading=1),
        *convolution(f"{prefix}embeddings.patch_embeddings.projection", "patches"),
        *norm(f"{layer}layernorm_before", f"{ours}attention_residual.norm"),
        *linear(f"{layer}attention.attention.query", f"{ours}self_attention.query"),
        *linear(f"{layer}attention.attention.key", f"{ours}self_attention.key"),
        *linear(f"{layer}attention.attention.value", f"{ours}self_attention.value"),
        *linear(f"{layer}attention.output.dense", f"{ours}self_attention.out"),
        *norm(f"{layer}layernorm_after", f"{ours}feed_forward_residual.norm"),
        *linear(f"{layer}intermediate.dense", f"{ours}feed_forward.inner"),
        *linear(f"{layer}output.dense", f"{ours}feed_forward.outer"),
        *norm(f"{prefix}layernorm", "norm"),
    )


def _architecture(name: str, classes: dict[str, Published]) -> Architecture:
    return Architecture(
        name=name,
        model=ViT,
        config=ViTConfig(classes=2),
        fields=FIELDS,
        classes=classes,
        entries=_body(f"{name}."),
        prefix=f"{name}.",
        required={"qkv_bias": True, "pooler_act": "tanh"},
        unused=("pooler.*", "embeddings.mask_token"),
        complete=complete,
    )


VIT = _architecture(
    "vit",
    {
        "ViTForImageClassification": Published(
            {"distilled": False, "head": "class"}, linear("classifier", "head")
        ),
        "ViTModel": Published(
            {"distilled": False, "head": "pooler"}, linear("vit.pooler.dense", "head"), bare=True
        ),
    },
)

DEIT = _architecture(
    "deit",
    {
        "DeiTForImageClassificationWithTeacher": Published(
            {"distilled": True, "head": "teacher"},
            (
                *linear("cls_classifier", "head"),
                *linear("distillation_classifier", "distillation_head"),
            ),
        ),
        "DeiTForImageClassification": Published(
            {"distilled": True, "head": "class"}, linear("classifier", "head")
        ),
        "DeiTModel": Published(
            {"distilled": True, "head": "pooler"}, linear("deit.pooler.dense", "head"), bare=True
        ),
    },
)
