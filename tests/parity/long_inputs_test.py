"""Longformer and BigBird say of 16,384 tokens what `transformers` says of them."""

import jax
import numpy as np
import pytest
from flax import nnx

from attn_jax import masks
from tests.parity.images import widen_softmax
from tests.parity.twin import QUICK, Twins, redraw, torch, transformers

pytestmark = pytest.mark.slow

LENGTH, REAL = 16_384, 16_100
SIZES = dict(
    vocab_size=31, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=LENGTH + 2,
)  # fmt: skip
CASES = {
    "LongformerForMaskedLM": dict(attention_window=512),
    "BigBirdForMaskedLM": dict(block_size=64, num_random_blocks=3),
}


@pytest.mark.parametrize("name", CASES)
def test_many_tokens_are_seen_as_the_twin_sees_them(name, x64, monkeypatch, tmp_path, record):
    """With padding, and global tokens far from all others."""
    widen_softmax(monkeypatch)
    kind = getattr(transformers, name)
    theirs = redraw(kind(kind.config_class(**SIZES, **CASES[name])))
    twins = Twins(theirs, tmp_path, record)
    rng = np.random.default_rng(0)
    real = np.arange(LENGTH)[None] < REAL
    ids = np.where(real, rng.integers(3, 31, real.shape), theirs.config.pad_token_id)
    is_global = np.isin(np.arange(LENGTH), [0, 9_001])[None]
    given = {"is_global": is_global} if name.startswith("Longformer") else {}
    graph, state = nnx.split(twins.ours)

    def call(state):
        mask = masks.segments(np.where(real, 0, -1))  # the twins' padding sees nothing, either
        return nnx.merge(graph, state)(ids, mask=mask, **given)

    asked = dict(input_ids=torch.tensor(ids), attention_mask=torch.tensor(real).long())
    if given:
        asked["global_attention_mask"] = torch.tensor(is_global).long()
    with torch.no_grad():
        told = theirs(**asked).logits
    ours = jax.jit(call, compiler_options=QUICK)(state)
    twins.same("logits, 16,384 tokens", ours[:, :REAL], told[:, :REAL])
