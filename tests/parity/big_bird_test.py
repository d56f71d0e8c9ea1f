"""BigBird is what `transformers` says it is, with both kinds of attention and padding to blocks.

In evaluation the twin's random blocks are all the first block, which it counts again. Its maps of
that attention show one of these counts, so that they are not compared.
"""

import numpy as np
import pytest

from attn_jax import masks
from tests.parity.heads import draw_labels, loss_and_logits, twin
from tests.parity.twin import Outputs, Twins, redraw, transformers

pytestmark = pytest.mark.slow

SIZES = dict(
    vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=24, max_position_embeddings=40, block_size=3, num_random_blocks=2,
    attn_implementation="eager",
)  # fmt: skip
CASES = {
    "BigBirdForMaskedLM, sparse": (33, {}),
    "BigBirdForMaskedLM, sparse, no whole blocks, four heads": (
        32, dict(num_attention_heads=4, num_random_blocks=1, tie_word_embeddings=False),
    ),
    "BigBirdForMaskedLM, sparse, too short for it": (27, {}),
    "BigBirdForMaskedLM, full": (13, dict(attention_type="original_full", hidden_act="relu")),
    "BigBirdForPreTraining, sparse": (29, dict(block_size=2)),
    "BigBirdForSequenceClassification, sparse": (
        34, dict(num_labels=3, num_attention_heads=1, hidden_act="relu"),
    ),
    "BigBirdForTokenClassification, sparse": (17, dict(block_size=2, num_random_blocks=1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, tmp_path, record):
    name, (length, options) = case.split(",")[0], CASES[case]
    config = transformers.BigBirdConfig(**SIZES | options)
    theirs = redraw(twin(name)(config))
    rng = np.random.default_rng(len(case))
    real = np.arange(length) < np.array([[length], [length - 8], [1]])
    ids = np.where(real, rng.integers(3, 31, real.shape), config.pad_token_id)
    segments = rng.integers(0, 2, ids.shape)
    labels = draw_labels(name, config, real, rng)
    sparse = length > (5 + 2 * config.num_random_blocks) * config.block_size
    full = not sparse or config.attention_type == "original_full"
    # the twin's padding sees nothing, either, where attention is sparse
    mask = masks.valid(real) if full else masks.segments(np.where(real, 0, -1))

    def call(model):
        said = loss_and_logits(name, model(ids, segments, mask=mask), labels)
        states = model.hidden_states(ids, segments, mask=mask)
        maps = model.attention_maps(ids, segments, mask=mask)
        states = None if length % config.block_size and not full else states  # theirs are longer
        told = config.attention_type == "original_full"
        return Outputs(*said, states, maps if told else None)

    inputs = dict(input_ids=ids, token_type_ids=segments, attention_mask=real, labels=labels)
    Twins(theirs, tmp_path, record).check(call, inputs)
