"""BERT as published: Devlin et al. (2019), in the names of ``transformers``."""

from __future__ import annotations

from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.layouts import Entries, embedding, linear, norm, tensor
from attn_jax.models.bert import Bert, BertConfig

FIELDS = {
    "vocab_size": "vocabulary",
    "max_position_embeddings": "positions",
    "type_vocab_size": "segments",
    "num_hidden_layers": "layers",
    "num_attention_heads": "blocks.heads",
    "hidden_size": "blocks.width",
    "intermediate_size": "blocks.hidden",
    "hidden_act": "blocks.activation",
    "layer_norm_eps": "blocks.epsilon",
    "hidden_dropout_prob": "blocks.dropout",
    "attention_probs_dropout_prob": "blocks.attention_dropout",
    "tie_word_embeddings": "tied",
    "num_labels": "labels",
}

REQUIRED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
}


def encoder(prefix: str) -> Entries:
    """The tensors of an encoder that other architectures have too, under another prefix."""
    layer = f"{prefix}encoder.layer.{{i}}."
    return (
        *embedding(f"{prefix}embeddings.word_embeddings", "embedding"),
        *embedding(f"{prefix}embeddings.position_embeddings", "positions"),
        *embedding(f"{prefix}embeddings.token_type_embeddings", "segments"),
        *norm(f"{prefix}embeddings.LayerNorm", "norm"),
        *linear(f"{layer}attention.self.query", "layers.{i}.self_attention.query"),
        *linear(f"{layer}attention.self.key", "layers.{i}.self_attention.key"),
        *linear(f"{layer}attention.self.value", "layers.{i}.self_attention.value"),
        *linear(f"{layer}attention.output.dense", "layers.{i}.self_attention.out"),
        *norm(f"{layer}attention.output.LayerNorm", "layers.{i}.attention_residual.norm"),
        *linear(f"{layer}intermediate.dense", "layers.{i}.feed_forward.inner"),
        *linear(f"{layer}output.dense", "layers.{i}.feed_forward.outer"),
        *norm(f"{layer}output.LayerNorm", "layers.{i}.feed_forward_residual.norm"),
    )


POOLER = linear("bert.pooler.dense", "pooler")

ARCHITECTURE = Architecture(
    name="bert",
    model=Bert,
    config=BertConfig(),
    fields=FIELDS,
    classes={
        "BertModel": Published({"head": None, "padding": None}, POOLER, bare=True),
        "BertForMaskedLM": Published(
            {"head": "masked_language_model", "padding": None},
            (
                *linear("cls.predictions.transform.dense", "head.dense"),
                *norm("cls.predictions.transform.LayerNorm", "head.norm"),
                *tensor("cls.predictions.bias", "head.bias"),
                *linear("cls.predictions.decoder", "head.decoder"),
            ),
        ),
        "BertForSequenceClassification": Published(
            {"head": "sequence_classification", "padding": None},
            (*POOLER, *linear("classifier", "head.linear")),
        ),
        "BertForTokenClassification": Published(
            {"head": "token_classification", "padding": None}, linear("classifier", "head.linear")
        ),
    },
    entries=encoder("bert."),
    prefix="bert.",
    required=REQUIRED,
    # A buffer; heads of the original files that a class does not have.
    unused=("embeddings.position_ids", "pooler.*", "cls.*"),
    renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
