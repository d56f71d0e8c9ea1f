"""MarianMT as published: Junczys-Dowmunt et al. (2018), in the names of ``transformers``."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.layouts import Entries, embedding, linear, norm, tensor
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.logical_axes import LOGICAL_AXES

REPEATED = {
    "decoder_vocab_size": "vocab_size",
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
    "forced_eos_token_id": "eos_token_id",
}
"""Fields of config.json that say again what others say."""

FIELDS = {
    "vocab_size": "vocabulary",
    "decoder_vocab_size": "vocabulary",
    "max_position_embeddings": "longest",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "encoder_attention_heads": "blocks.heads",
    "decoder_attention_heads": "blocks.heads",
    "encoder_ffn_dim": "blocks.hidden",
    "decoder_ffn_dim": "blocks.hidden",
    "d_model": "blocks.width",
    "activation_function": "blocks.activation",
    "dropout": "blocks.dropout",
    "attention_dropout": "blocks.attention_dropout",
    "activation_dropout": "blocks.activation_dropout",
    "scale_embedding": "scaled",
    "pad_token_id": "padding",
    "decoder_start_token_id": "begin",
    "eos_token_id": "end",
    "forced_eos_token_id": "end",
    "bad_words_ids": "never",
}


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """Without what says again what is said elsewhere.

    Raises:
      ValueError: it says something else.
    """
    differing = [
        f"{field} = {config[field]!r} and {first} = {config.get(first)!r}"
        for field, first in REPEATED.items()
        if config.get(field) not in (None, config.get(first))
    ]
    if differing:
        raise ValueError(
            f"config.json has {'; '.join(differing)}, where both are expected to be the same"
        )
    repeated = {*REPEATED, "bad_words_ids"}
    return {field: value for field, value in config.items() if field not in repeated}


def form(model: Transformer) -> Transformer:
    """The same function of tokens with sines before cosines, and with a bias of the logits.

    The axis of the residual stream is permuted in every parameter that has it, so that embeddings
    meet the sinusoids in their other order.
    """
    config = dataclasses.replace(model.config, interleaved=False, output_bias=True)
    made = nnx.clone(model)
    made.config = config
    if model.config.interleaved and model.config.positions == "sinusoidal":
        width = config.blocks.width
        order = np.r_[0:width:2, 1:width:2]
        for path, parameter in nnx.to_flat_state(nnx.state(made, nnx.Param)):
            for axis in _residual_axes(".".join(map(str, path))):
                parameter.set_value(jnp.take(parameter.get_value(), order, axis=axis))
    for positions in (made.source_positions, made.target_positions):
        positions.interleaved = False
    if not model.config.output_bias:
        made.output_bias = nnx.Param(jnp.zeros_like(made.target_embedding.table[...][:, 0]))
    return made


def _residual_axes(path: str) -> list[int]:
    """Which axes of a parameter are the width of the residual stream."""
    known = {**LOGICAL_AXES, r"\w*norm\.(scale|bias)|(out|outer)\.bias": ("embed",)}
    for pattern, axes in known.items():
        if re.search(rf"(^|\.)({pattern})$", path):
            return [i for i, name in enumerate(axes) if name == "embed"]
    return []


def attention(published: str, ours: str) -> Entries:
    """Attention, with the names of its four projections."""
    names = {"q": "query", "k": "key", "v": "value", "out": "out"}
    return tuple(
        entry
        for short, name in names.items()
        for entry in linear(f"{published}.{short}_proj", f"{ours}.{name}")
    )


def stack(name: str) -> Entries:
    """What the blocks of the encoder and of the decoder have in common."""
    theirs, ours = f"model.{name}.layers.{{i}}.", f"{name}.{{i}}."
    residual = "attention_residual" if name == "encoder" else "self_residual"
    return (
        *attention(f"{theirs}self_attn", f"{ours}self_attention"),
        *norm(f"{theirs}self_attn_layer_norm", f"{ours}{residual}.norm"),
        *linear(f"{theirs}fc1", f"{ours}feed_forward.inner"),
        *linear(f"{theirs}fc2", f"{ours}feed_forward.outer"),
        *norm(f"{theirs}final_layer_norm", f"{ours}feed_forward_residual.norm"),
    )


ACROSS = "model.decoder.layers.{i}.encoder_attn"

ARCHITECTURE = Architecture(
    name="marian",
    model=Transformer,
    config=TransformerConfig(
        vocabulary=58_101,
        encoder_layers=12,
        decoder_layers=12,
        blocks=BlockOptions(1024, 4096, 16, activation="gelu", epsilon=1e-5),
        interleaved=False,
        scaled=False,
        output_bias=True,
        padding=58_100,
        begin=58_100,
        end=0,
    ),
    fields=FIELDS,
    classes={"MarianMTModel": Published({"interleaved": False, "output_bias": True})},
    entries=(
        *embedding("model.shared", "source_embedding"),
        *stack("encoder"),
        *stack("decoder"),
        *attention(ACROSS, "decoder.{i}.cross_attention"),
        *norm(f"{ACROSS}_layer_norm", "decoder.{i}.cross_residual.norm"),
        *tensor("final_logits_bias", "output_bias", leading=1),
    ),
    required={
        "is_encoder_decoder": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
    },
    # Sinusoids, which follow from the sizes.
    unused=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
    tied={
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
    },
    complete=complete,
    form=form,
)
