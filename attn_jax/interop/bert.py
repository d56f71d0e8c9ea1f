"""BERT as published: Devlin et al. (2019), in the names of ``transformers``."""

from __future__ import annotations

from typing import Any

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


def language_model(published: str, ours: str) -> Entries:
    """The tensors of a masked language model."""
    return (
        *linear(f"{published}.transform.dense", f"{ours}.dense"),
        *norm(f"{published}.transform.LayerNorm", f"{ours}.norm"),
        *tensor(f"{published}.bias", f"{ours}.bias"),
        *linear(f"{published}.decoder", f"{ours}.decoder"),
    )


def classes(family: str, pooler: Entries, **decides: Any) -> dict[str, Published]:
    """The heads of a family whose tensors are named as BERT's, by the name of the class.

    Args:
      family: what the names of the classes begin with.
      pooler: the tensors of its pooler.
      decides: fields of our config, and what they are in all classes.
    """
    sentences = linear("cls.seq_relationship", "head.sentences")
    return {
        f"{family}Model": Published({"head": None, **decides}, pooler, bare=True),
        f"{family}ForMaskedLM": Published(
            {"head": "masked_language_model", **decides}, language_model("cls.predictions", "head")
        ),
        f"{family}ForPreTraining": Published(
            {"head": "pretraining", **decides},
            (*pooler, *language_model("cls.predictions", "head.tokens"), *sentences),
        ),
        f"{family}ForTokenClassification": Published(
            {"head": "token_classification", **decides}, CLASSIFIER
        ),
    }


CLASSIFIER = linear("classifier", "head.linear")
ANSWERS = Published(
    {"head": "question_answering", "labels": 2}, linear("qa_outputs", "head.linear")
)
POOLER = linear("bert.pooler.dense", "pooler")

ARCHITECTURE = Architecture(
    name="bert",
    model=Bert,
    config=BertConfig(),
    fields=FIELDS,
    classes={
        **classes("Bert", POOLER, padding=None),
        "BertForNextSentencePrediction": Published(
            {"head": "next_sentence", "labels": 2, "padding": None},
            (*POOLER, *linear("cls.seq_relationship", "head.linear")),
        ),
        "BertForSequenceClassification": Published(
            {"head": "sequence_classification", "padding": None}, (*POOLER, *CLASSIFIER)
        ),
        "BertForQuestionAnswering": ANSWERS._replace(decides={**ANSWERS.decides, "padding": None}),
    },
    entries=encoder("bert."),
    prefix="bert.",
    required=REQUIRED,
    # A buffer; heads of the original files that a class does not have.
    unused=("embeddings.position_ids", "pooler.*", "cls.predictions.*", "cls.seq_relationship.*"),
    renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
