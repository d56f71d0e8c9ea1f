"""Swin is what `transformers` says it is."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.parity.images import check_pooled, widen_softmax
from tests.parity.twin import Outputs, Twins, cross_entropy, redraw, transformers

pytestmark = pytest.mark.slow

SIZES = dict(
    embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=2, patch_size=2, num_labels=5,
    mlp_ratio=1.5, attn_implementation="eager",
)  # fmt: skip
CASES = {
    "windows that fit": ((16, 8), {}),
    "sides that patches, windows and merging do not divide": (
        (17, 21),
        dict(window_size=3, num_channels=1, hidden_act="relu", layer_norm_eps=1e-3),
    ),
    "a last stage of one window, oblong patches, three stages": (
        (24, 16),
        dict(depths=[1, 2, 1], num_heads=[1, 2, 2], patch_size=[3, 2], window_size=2),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, monkeypatch, tmp_path, record):
    widen_softmax(monkeypatch)
    size, changes = CASES[case]
    config = transformers.SwinConfig(**SIZES | changes)
    theirs = redraw(transformers.SwinForImageClassification(config))
    rng = np.random.default_rng(len(case))
    images = rng.normal(size=(2, *size, config.num_channels))
    labels = rng.integers(0, config.num_labels, 2)

    def call(model):
        x = jnp.asarray(images)
        logits, (patches, *stages), maps = model(x), model.hidden_states(x), model.attention_maps(x)
        # To the twin a stage ends with its patches merged; it tells the maps of each last block.
        merged = [stage.merging(x) for stage, x in zip(model.stages[1:], stages)]
        states = [patches, *merged, stages[-1]]
        last = np.cumsum(model.config.depths) - 1
        return Outputs(
            cross_entropy(logits, labels),
            logits,
            tuple(state.reshape(2, -1, state.shape[-1]) for state in states),
            tuple(maps[i].reshape(-1, *maps[i].shape[2:]) for i in last),
        )

    inputs = dict(pixel_values=np.moveaxis(images, -1, 1), labels=labels)
    Twins(theirs, tmp_path, record).check(call, inputs)


def test_a_body_with_its_pooler_agrees_with_its_twin(x64, monkeypatch, tmp_path, record):
    widen_softmax(monkeypatch)
    theirs = redraw(transformers.SwinModel(transformers.SwinConfig(**SIZES)))
    images = np.random.default_rng(0).normal(size=(2, 16, 8, 3))
    check_pooled(Twins(theirs, tmp_path, record), images)
