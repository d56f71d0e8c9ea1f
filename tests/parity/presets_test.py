"""Presets have as many parameters as the published implementation of their sizes."""

import jax
import pytest
from flax import nnx

from attn_jax import models
from tests.parity.twin import torch, transformers

pytestmark = pytest.mark.slow

LARGE = dict(
    hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
)  # fmt: skip
ROBERTA = dict(
    vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1
)  # fmt: skip
LONGFORMER = ROBERTA | dict(max_position_embeddings=4098)
CASES = {
    "BertForPreTraining": (lambda: models.Bert.base("pretraining"), {}),
    "RobertaModel": (models.Bert.roberta_base, ROBERTA),
    "LongformerModel": (models.Longformer.base, LONGFORMER),
    "BigBirdModel": (models.BigBird.base, {}),
    "BigBirdModel, large": (models.BigBird.large, LARGE),
    "GPT2LMHeadModel": (models.GPT.small, {}),
    "ImageGPTForCausalImageModeling": (models.ImageGPT.small, {}),
    "ViTForImageClassification": (models.ViT.base, dict(num_labels=1000)),
    "SwinForImageClassification": (models.Swin.tiny, dict(num_labels=1000)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_preset_is_as_large_as_its_twin(case):
    preset, options = CASES[case]
    kind = getattr(transformers, case.split(",")[0])
    with torch.device("meta"):
        twin = kind(kind.config_class(**options))
    ours = jax.tree.leaves(nnx.state(nnx.eval_shape(preset), nnx.Param))
    assert sum(x.size for x in ours) == sum(x.numel() for x in twin.parameters())
