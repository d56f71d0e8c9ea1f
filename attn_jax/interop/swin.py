"""Swin as published: Liu et al. (2021), in the names of ``transformers``.

It calls the merging of patches the end of a stage; the paper, and this project, the beginning of the
next.
"""

from __future__ import annotations

from typing import Any

from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.layouts import convolution, linear, norm, tensor
from attn_jax.models.swin import Swin, SwinConfig

SEQUENCES = ("patch_size", "depths", "num_heads")
BLOCK, OURS = "swin.encoder.layers.{i}.blocks.{j}.", "stages.{i}.blocks.{j}."
MERGING = {f"swin.encoder.layers.{i}.downsample": f"stages.{i + 1}.merging" for i in range(8)}


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """Lists are tuples."""
    given = {name: config[name] for name in SEQUENCES if name in config}
    return config | {name: tuple(n) if isinstance(n, list) else n for name, n in given.items()}


ARCHITECTURE = Architecture(
    name="swin",
    model=Swin,
    config=SwinConfig(classes=2),
    fields={
        "patch_size": "patch",
        "num_channels": "channels",
        "embed_dim": "width",
        "depths": "depths",
        "num_heads": "heads",
        "window_size": "window",
        "mlp_ratio": "ratio",
        "hidden_act": "activation",
        "layer_norm_eps": "epsilon",
        "drop_path_rate": "depth_dropout",
        "num_labels": "classes",
    },
    classes={
        "SwinForImageClassification": Published({"head": "class"}, linear("classifier", "head")),
        "SwinModel": Published({"head": "pooler"}, bare=True),
    },
    entries=(
        *convolution("swin.embeddings.patch_embeddings.projection", "patches"),
        *norm("swin.embeddings.norm", "patch_norm"),
        *norm(f"{BLOCK}layernorm_before", f"{OURS}attention_norm"),
        *linear(f"{BLOCK}attention.self.query", f"{OURS}self_attention.query"),
        *linear(f"{BLOCK}attention.self.key", f"{OURS}self_attention.key"),
        *linear(f"{BLOCK}attention.self.value", f"{OURS}self_attention.value"),
        *linear(f"{BLOCK}attention.output.dense", f"{OURS}self_attention.out"),
        *tensor(
            f"{BLOCK}attention.self.relative_position_bias_table",
            f"{OURS}self_attention.rule.bias.table",
        ),
        *norm(f"{BLOCK}layernorm_after", f"{OURS}feed_forward_norm"),
        *linear(f"{BLOCK}intermediate.dense", f"{OURS}feed_forward.inner"),
        *linear(f"{BLOCK}output.dense", f"{OURS}feed_forward.outer"),
        *(e for theirs, ours in MERGING.items() for e in norm(f"{theirs}.norm", f"{ours}.norm")),
        *(
            e
            for theirs, ours in MERGING.items()
            for e in linear(f"{theirs}.reduction", f"{ours}.reduction")
        ),
        *norm("swin.layernorm", "norm"),
    ),
    prefix="swin.",
    required={
        "qkv_bias": True,
        "use_absolute_embeddings": False,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
    unused=("*.relative_position_index", "*.attn_mask", "embeddings.mask_token"),  # buffers
    complete=complete,
)
