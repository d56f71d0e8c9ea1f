"""BigBird as published: Zaheer et al. (2020), in the names of ``transformers``."""

from __future__ import annotations

from attn_jax.interop import bert
from attn_jax.interop.architecture import Architecture, Published
from attn_jax.interop.layouts import linear
from attn_jax.models.bigbird import BigBird, BigBirdConfig

BERT = bert.ARCHITECTURE
EVALUATED = {"padding": None, "seed": None}

ARCHITECTURE = Architecture(
    name="big_bird",
    model=BigBird,
    config=BigBirdConfig(seed=None),
    fields={
        **BERT.fields,
        "attention_type": "attention",
        "block_size": "block",
        "num_random_blocks": "random_blocks",
    },
    classes={
        **bert.classes("BigBird", linear("bert.pooler", "pooler"), **EVALUATED),
        "BigBirdForSequenceClassification": Published(
            {"head": "sequence_classification", **EVALUATED},
            (*linear("classifier.dense", "pooler"), *linear("classifier.out_proj", "head.linear")),
        ),
    },
    entries=BERT.entries,
    prefix="bert.",
    required={
        "is_decoder": False,
        "add_cross_attention": False,
        "use_bias": True,
        "rescale_embeddings": False,
    },
    unused=(*BERT.unused, "embeddings.token_type_ids"),
    tied=BERT.tied,
)
