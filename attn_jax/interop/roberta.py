"""RoBERTa as published: Liu et al. (2019), a BERT whose positions count from behind the padding id."""

from __future__ import annotations

import dataclasses

from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.bert import ANSWERS, CLASSIFIER, FIELDS, REQUIRED, encoder
from attn_jax.interop.layouts import linear, norm, tensor
from attn_jax.models.bert import Bert, BertConfig

ARCHITECTURE = Architecture(
    name="roberta",
    model=Bert,
    config=dataclasses.replace(BertConfig(), padding=1),
    fields={name: ours for name, ours in FIELDS.items() if name != "hidden_act"}
    | {"pad_token_id": "padding"},
    classes={
        "RobertaModel": Published(
            {"head": None}, linear("roberta.pooler.dense", "pooler"), bare=True
        ),
        "RobertaForMaskedLM": Published(
            {"head": "masked_language_model"},
            (
                *linear("lm_head.dense", "head.dense"),
                *norm("lm_head.layer_norm", "head.norm"),
                *tensor("lm_head.bias", "head.bias"),
                *linear("lm_head.decoder", "head.decoder"),
            ),
        ),
        "RobertaForSequenceClassification": Published(
            {"head": "sequence_classification"},
            (*linear("classifier.dense", "pooler"), *linear("classifier.out_proj", "head.linear")),
        ),
        "RobertaForTokenClassification": Published({"head": "token_classification"}, CLASSIFIER),
        "RobertaForQuestionAnswering": ANSWERS,
    },
    entries=encoder("roberta."),
    prefix="roberta.",
    required=REQUIRED | {"hidden_act": "gelu"},
    unused=("embeddings.position_ids", "pooler.*", "lm_head.*"),
    tied={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)
