"""Longformer as published: Beltagy et al. (2020), a RoBERTa whose global tokens have projections."""

from __future__ import annotations

from typing import Any

from attn_jax.interop import roberta
from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.bert import encoder
from attn_jax.interop.layouts import linear
from attn_jax.models.longformer import Longformer, LongformerConfig

ATTENTION = "longformer.encoder.layer.{i}.attention.self."
ROBERTA = roberta.ARCHITECTURE


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """A window for each layer, also where one is given for all."""
    layers = config.get("num_hidden_layers", LongformerConfig().layers)
    windows = config.get("attention_window", 512)
    windows = (windows,) * layers if isinstance(windows, int) else tuple(windows)
    return config | {"num_hidden_layers": layers, "attention_window": windows}


ARCHITECTURE = Architecture(
    name="longformer",
    model=Longformer,
    config=LongformerConfig(vocabulary=30_522, positions=512, segments=2),
    fields={**ROBERTA.fields, "attention_window": "windows"},
    classes={
        name.replace("Roberta", "Longformer"): Published(
            published.decides,
            tuple(
                entry._replace(published=entry.published.replace("roberta.", "longformer."))
                for entry in published.entries
            ),
            published.bare,
        )
        for name, published in ROBERTA.classes.items()
    },
    entries=(
        *encoder("longformer."),
        *linear(f"{ATTENTION}query_global", "layers.{i}.self_attention.global_query"),
        *linear(f"{ATTENTION}key_global", "layers.{i}.self_attention.global_key"),
        *linear(f"{ATTENTION}value_global", "layers.{i}.self_attention.global_value"),
    ),
    prefix="longformer.",
    required=ROBERTA.required,
    unused=ROBERTA.unused,
    tied={
        "lm_head.decoder.weight": "longformer.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    complete=complete,
)
