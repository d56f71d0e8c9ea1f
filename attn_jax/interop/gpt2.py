"""GPT-2 as published: Radford et al. (2019), in the names of ``transformers``."""

from __future__ import annotations

from typing import Any

from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.layouts import conv1d, embedding, norm, tensor
from attn_jax.models.gpt import GPT, GPTConfig


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """The feed-forward width is four times the model's where it is not given."""
    width = config.get("n_embd", GPTConfig().blocks.width)
    return config | {"n_inner": config.get("n_inner") or 4 * width}


LAYER = "transformer.h.{i}."
ATTENTION = "layers.{i}.self_attention."

FIELDS = {
    "vocab_size": "vocabulary",
    "n_positions": "positions",
    "n_layer": "layers",
    "n_head": "blocks.heads",
    "n_embd": "blocks.width",
    "n_inner": "blocks.hidden",
    "activation_function": "blocks.activation",
    "layer_norm_epsilon": "blocks.epsilon",
    "resid_pdrop": "blocks.dropout",
    "attn_pdrop": "blocks.attention_dropout",
    "tie_word_embeddings": "tied",
}

ARCHITECTURE = Architecture(
    name="gpt2",
    model=GPT,
    config=GPTConfig(),
    fields=FIELDS | {"num_labels": "labels", "pad_token_id": "padding"},
    classes={
        "GPT2LMHeadModel": Published({"head": "language_model"}),
        "GPT2Model": Published({"head": "language_model", "tied": True}, bare=True),
        "GPT2ForSequenceClassification": Published(
            {"head": "sequence_classification", "tied": True},
            tensor("score.weight", "head.kernel", axes=(1, 0)),
        ),
    },
    entries=(
        *embedding("transformer.wte", "embedding"),
        *embedding("transformer.wpe", "positions"),
        *norm(f"{LAYER}ln_1", "layers.{i}.attention_residual.norm"),
        *conv1d(f"{LAYER}attn.c_attn", *(f"{ATTENTION}{p}" for p in ("query", "key", "value"))),
        *conv1d(f"{LAYER}attn.c_proj", f"{ATTENTION}out"),
        *norm(f"{LAYER}ln_2", "layers.{i}.feed_forward_residual.norm"),
        *conv1d(f"{LAYER}mlp.c_fc", "layers.{i}.feed_forward.inner"),
        *conv1d(f"{LAYER}mlp.c_proj", "layers.{i}.feed_forward.outer"),
        *norm("transformer.ln_f", "norm"),
        *tensor("lm_head.weight", "output.table"),
    ),
    prefix="transformer.",
    required={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
    unused=("h.*.attn.bias", "h.*.attn.masked_bias"),  # buffers: the causal mask
    tied={"lm_head.weight": "transformer.wte.weight"},
    complete=complete,
)
