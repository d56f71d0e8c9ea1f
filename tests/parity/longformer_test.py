"""Longformer is what `transformers` says it is: windows, global tokens, padding, any length."""

import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import masks
from tests.parity.heads import draw_labels, loss_and_logits, twin
from tests.parity.images import widen_softmax
from tests.parity.twin import Outputs, Twins, redraw, torch, transformers

pytestmark = pytest.mark.slow

SIZES = dict(
    vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=24, max_position_embeddings=30, attention_window=[4, 8],
    attn_implementation="eager",
)  # fmt: skip
ODD = [[1, 13], [6], []]  # which tokens are global: in the second row one far from all others
CASES = {
    "LongformerForMaskedLM": (19, ODD, {}),
    "LongformerForMaskedLM, no global token": (16, [[], [], []], dict(attention_window=4)),
    "LongformerForMaskedLM, untied, four heads": (
        21, ODD, dict(tie_word_embeddings=False, num_attention_heads=4, attention_window=6),
    ),
    "LongformerForSequenceClassification": (17, [[0], [0], [0]], dict(num_labels=3)),
    "LongformerForQuestionAnswering": (18, [[1, 2], [1, 2, 3], [0]], {}),
    "LongformerForTokenClassification": (9, ODD, dict(num_labels=5, pad_token_id=0)),
}  # fmt: skip


def show_all(theirs, is_global, windows):
    """Has a twin give whole maps, of whose rows it gives what lies in the window and is global."""
    forward = theirs.forward

    def whole(local, far, window):
        b, h, t, columns = local.shape
        maps, globals_ = torch.zeros(b, h, t, t, dtype=local.dtype), columns - window - 1
        places = np.arange(t)
        for offset in range(-(window // 2), window // 2 + 1):
            i = places[(places + offset >= 0) & (places + offset < t)]
            maps[:, :, i, i + offset] += local[:, :, i, globals_ + window // 2 + offset]
        for row in range(b):
            for n, place in enumerate(np.nonzero(is_global[row])[0]):
                maps[row, :, :, place] += local[row, :, :, n]
                maps[row, :, place] = far[row, :, :t, n]
        return maps

    def forward_shown(**inputs):
        outputs = forward(**inputs)
        if outputs.attentions is not None:
            far = outputs.global_attentions or [None] * len(windows)
            outputs.attentions = tuple(map(whole, outputs.attentions, far, windows))
        return outputs

    theirs.forward = forward_shown


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, monkeypatch, tmp_path, record):
    widen_softmax(monkeypatch)
    name, (length, chosen, options) = case.split(",")[0], CASES[case]
    config = transformers.LongformerConfig(**SIZES | options)
    theirs = redraw(twin(name)(config))
    rng = np.random.default_rng(len(case))
    real = np.arange(length) < np.array([[length], [length - 5], [1]])
    ids = np.where(real, rng.integers(3, 31, real.shape), config.pad_token_id)
    segments = rng.integers(0, config.type_vocab_size, ids.shape)
    is_global = np.zeros_like(real)
    for row, places in enumerate(chosen):
        is_global[row, [place for place in places if place < length]] = True
    labels = draw_labels(name, config, real, rng)

    def call(model):
        # the twin's padding sees nothing, either
        given = dict(
            is_global=jnp.asarray(is_global) if is_global.any() else None,
            mask=masks.segments(np.where(real, 0, -1)),
        )
        said = loss_and_logits(name, model(ids, segments, **given), labels)
        states = model.hidden_states(ids, segments, **given)
        maps = model.attention_maps(ids, segments, **given)
        return Outputs(*said, states, maps)

    twins = Twins(theirs, tmp_path, record)
    show_all(theirs, is_global & real, twins.ours.config.windows)
    inputs = dict(
        input_ids=ids, token_type_ids=segments, attention_mask=real, labels=labels,
        global_attention_mask=is_global,
    )  # fmt: skip
    twins.check(call, inputs)
