"""BERT and RoBERTa are what `transformers` says they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import interop, masks
from tests.parity.heads import draw_labels, loss_and_logits, twin
from tests.parity.images import widen_softmax
from tests.parity.twin import QUICK, Outputs, Twins, redraw, torch, transformers

pytestmark = pytest.mark.slow

SIZES = dict(
    vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=24, max_position_embeddings=20, attn_implementation="eager",
)  # fmt: skip
CASES = {
    "BertForMaskedLM": {},
    "BertForMaskedLM, untied, four heads, relu": dict(
        tie_word_embeddings=False, num_attention_heads=4, hidden_act="relu"
    ),
    "BertForPreTraining": dict(hidden_act="gelu_new"),
    "BertForPreTraining, untied": dict(tie_word_embeddings=False),
    "BertForNextSentencePrediction": {},
    "BertForQuestionAnswering": dict(num_attention_heads=4),
    "BertForSequenceClassification": dict(num_labels=3, hidden_act="gelu_new"),
    "BertForTokenClassification": dict(num_labels=5, num_attention_heads=1, layer_norm_eps=1e-3),
    "RobertaForMaskedLM": {},
    "RobertaForMaskedLM, untied": dict(tie_word_embeddings=False, pad_token_id=0),
    "RobertaForSequenceClassification": dict(num_labels=3),
    "RobertaForTokenClassification": dict(type_vocab_size=1),
    "RobertaForQuestionAnswering": {},
}


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, tmp_path, record):
    name = case.split(",")[0]
    family = name.split("For")[0]
    config = getattr(transformers, f"{family}Config")(**SIZES | CASES[case])
    theirs = redraw(twin(name)(config))
    rng = np.random.default_rng(len(case))
    lengths = np.array([9, 5, 1])
    real = np.arange(9) < lengths[:, None]
    ids = np.where(real, rng.integers(3, 31, (3, 9)), config.pad_token_id)
    segments = rng.integers(0, config.type_vocab_size, ids.shape)
    labels = draw_labels(name, config, real, rng)

    def call(model):
        arguments = jnp.asarray(ids), jnp.asarray(segments)
        padding = masks.valid(real)
        return Outputs(
            *loss_and_logits(name, model(*arguments, mask=padding), labels),
            model.hidden_states(*arguments, mask=padding),
            model.attention_maps(*arguments, mask=padding),
        )

    inputs = dict(input_ids=ids, token_type_ids=segments, attention_mask=real, labels=labels)
    Twins(theirs, tmp_path, record).check(call, inputs)


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel", "LongformerModel", "BigBirdModel"])
def test_an_encoder_without_a_head_agrees_with_its_twin(name, x64, monkeypatch, tmp_path, record):
    widen_softmax(monkeypatch)
    config = getattr(transformers, name.replace("Model", "Config"))(**SIZES)
    twins = Twins(redraw(getattr(transformers, name)(config)), tmp_path, record)
    ids = np.random.default_rng(0).integers(3, 31, (2, 7))
    interop.save(twins.ours, tmp_path / "ours")
    returned = type(twins.theirs).from_pretrained(tmp_path / "ours", dtype=torch.float64)

    def call(state):
        model = nnx.merge(graph, state)
        states = model(jnp.asarray(ids))
        return states, model.pooled(states)

    graph, state = nnx.split(twins.ours)
    ours = jax.jit(call, compiler_options=QUICK)(state)
    with torch.no_grad():
        theirs, again = (m.eval()(torch.tensor(ids)) for m in (twins.theirs, returned))
    twins.same("hidden states", ours[0], theirs.last_hidden_state)
    twins.same("pooled", ours[1], theirs.pooler_output)
    twins.same("saved back", again.pooler_output.numpy(), theirs.pooler_output)
