"""ImageGPT is what `transformers` says it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.decode import Specials, generate
from tests.parity.twin import QUICK, Outputs, Twins, cross_entropy, redraw, torch, transformers

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


def test_it_paints_what_its_twin_paints(x64, tmp_path, record):
    config = transformers.ImageGPTConfig(**SIZES)
    theirs = redraw(transformers.ImageGPTForCausalImageModeling(config), seed=6)
    twins = Twins(theirs, tmp_path, record)
    graph, state = nnx.split(twins.ours)
    begun = np.array([[13, 4, 4], [13, 0, 9]])  # the start token, and two pixels

    def paint(state):
        specials = Specials(13, 13, 13)  # no pixel is a start token: it ends where the image does
        return generate(nnx.merge(graph, state), begun, None, length=10, specials=specials)

    told = theirs.generate(torch.tensor(begun), do_sample=False, max_new_tokens=9)[:, 3:].numpy()
    found = jax.jit(paint, compiler_options=QUICK)(state).tokens[:, 0]
    np.testing.assert_array_equal(found[:, :9], told)
    assert len(np.unique(told)) > 5
    twins.record("greedy search", "same tokens")
