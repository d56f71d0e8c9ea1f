"""ImageGPT is what `transformers` says it is."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.parity.twin import Outputs, Twins, cross_entropy, redraw, transformers

pytestmark = pytest.mark.slow

SIZES = dict(vocab_size=14, n_embd=16, n_layer=2, n_head=2, n_positions=12)
CASES = {
    "ImageGPTForCausalImageModeling": {},
    "ImageGPTForCausalImageModeling, four heads, a narrow network": dict(
        n_head=4, n_embd=24, n_inner=20, activation_function="gelu_new", layer_norm_epsilon=1e-3
    ),
    "ImageGPTForImageClassification": dict(num_labels=5),
}


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, tmp_path, record):
    name = case.split(",")[0]
    config = transformers.ImageGPTConfig(**SIZES | CASES[case])
    theirs = redraw(getattr(transformers, name)(config))
    rng = np.random.default_rng(len(case))
    ids = np.where(np.arange(11) == 0, 13, rng.integers(0, 13, (3, 11)))
    labels = rng.integers(0, 5, 3) if "Classification" in name else ids % 13

    def call(model):
        logits = model(jnp.asarray(ids))
        shifted = (logits[:, :-1], labels[:, 1:]) if labels.ndim == 2 else (logits, labels)
        states, maps = model.hidden_states(jnp.asarray(ids)), model.attention_maps(jnp.asarray(ids))
        return Outputs(cross_entropy(*shifted), logits, states, maps)

    Twins(theirs, tmp_path, record).check(call, dict(input_ids=ids, labels=labels))
