"""ViT and DeiT are what `transformers` says they are."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.parity.images import check_pooled, widen_softmax
from tests.parity.twin import Outputs, Twins, cross_entropy, redraw, torch, transformers

pytestmark = pytest.mark.slow

SIZES = dict(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=8,
    patch_size=2, num_labels=5, attn_implementation="eager",
)  # fmt: skip
CASES = {
    "ViTForImageClassification": {},
    "ViTForImageClassification, four heads, relu, one channel, oblong": dict(
        num_attention_heads=4, hidden_act="relu", num_channels=1, image_size=[4, 6],
        layer_norm_eps=1e-3,
    ),
    "ViTForImageClassification, another size": {},
    "DeiTForImageClassification": dict(num_attention_heads=1, hidden_act="gelu_new"),
    "DeiTForImageClassificationWithTeacher": {},
    "DeiTForImageClassificationWithTeacher, another size": dict(num_attention_heads=4),
}  # fmt: skip


class DeiTForImageClassificationWithTeacher(transformers.DeiTForImageClassificationWithTeacher):
    """With a loss, which the twin leaves to those who distil."""

    def forward(self, labels, **inputs):
        outputs = super().forward(**inputs)
        return transformers.modeling_outputs.ImageClassifierOutput(
            torch.nn.functional.cross_entropy(outputs.logits, labels),
            outputs.logits,
            outputs.hidden_states,
            outputs.attentions,
        )


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, monkeypatch, tmp_path, record):
    widen_softmax(monkeypatch)
    name = case.split(",")[0]
    config = getattr(transformers, f"{name.split('For')[0]}Config")(**SIZES | CASES[case])
    twin = globals().get(name) or getattr(transformers, name)
    theirs = redraw(twin(config))
    rng = np.random.default_rng(len(case))
    size = (6, 10) if "another size" in case else config.image_size
    height, width = (size, size) if isinstance(size, int) else size
    images = rng.normal(size=(3, height, width, config.num_channels))
    labels = rng.integers(0, config.num_labels, 3)

    def call(model):
        x = jnp.asarray(images)
        logits, states = model(x), model.hidden_states(x)
        last = model.layers[-1](states[-2])  # the twin's last state is not normalised
        return Outputs(
            cross_entropy(logits, labels), logits, (*states[:-1], last), model.attention_maps(x)
        )

    inputs = dict(pixel_values=np.moveaxis(images, -1, 1), labels=labels)
    if "another size" in case:
        inputs["interpolate_pos_encoding"] = True
    Twins(theirs, tmp_path, record).check(call, inputs)


@pytest.mark.parametrize("name", ["ViTModel", "DeiTModel"])
def test_a_body_with_its_pooler_agrees_with_its_twin(name, x64, monkeypatch, tmp_path, record):
    widen_softmax(monkeypatch)
    config = getattr(transformers, f"{name.removesuffix('Model')}Config")(**SIZES)
    theirs = redraw(getattr(transformers, name)(config))
    check_pooled(
        Twins(theirs, tmp_path, record), np.random.default_rng(0).normal(size=(2, 8, 8, 3))
    )
