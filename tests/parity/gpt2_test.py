"""GPT-2 is what `transformers` says it is: outputs, gradients, and what it writes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import masks
from attn_jax.decode import Beam, Specials, beam, generate
from attn_jax.decode.cache import Continuation
from tests.parity.twin import (
    IGNORED,
    QUICK,
    Outputs,
    Twins,
    cross_entropy,
    redraw,
    torch,
    transformers,
)

pytestmark = pytest.mark.slow

SIZES = dict(
    vocab_size=31, n_embd=16, n_layer=2, n_head=2, n_positions=40, bos_token_id=0, eos_token_id=0,
    pad_token_id=0, attn_implementation="eager",
)  # fmt: skip
CASES = {
    "tied": {},
    "untied, four heads, exact gelu": dict(
        tie_word_embeddings=False, n_head=4, activation_function="gelu"
    ),
    "one head, narrow": dict(
        n_head=1, n_inner=20, layer_norm_epsilon=1e-2, reorder_and_upcast_attn=False
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_its_twin(case, x64, tmp_path, record, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # the twin's loss asks for it
    config = transformers.GPT2Config(**SIZES | CASES[case])
    theirs = redraw(transformers.GPT2LMHeadModel(config))
    rng = np.random.default_rng(len(case))
    real = np.arange(9) < np.array([[9], [6], [1]])
    ids = np.where(real, rng.integers(1, 31, (3, 9)), 0)
    labels = np.where(real, ids, IGNORED)

    def call(model):
        padding = masks.valid(real)
        logits = model(ids, mask=padding)
        return Outputs(
            cross_entropy(logits[:, :-1], labels[:, 1:]),
            logits,
            model.hidden_states(ids, mask=padding),
            model.attention_maps(ids, mask=padding),
        )

    inputs = dict(input_ids=ids, attention_mask=real, labels=labels)
    Twins(theirs, tmp_path, record).check(call, inputs)


@pytest.mark.parametrize("padding", [0, None])
def test_the_last_token_classifies_as_the_twins_does(padding, x64, tmp_path, record):
    """Padded on either side; all is real where there is no id of padding."""
    config = transformers.GPT2Config(**SIZES | dict(pad_token_id=padding, num_labels=3))
    theirs = redraw(transformers.GPT2ForSequenceClassification(config))
    rng = np.random.default_rng(3)
    rows = 1 if padding is None else 3
    real = np.array([np.arange(9) < 9, np.arange(9) < 4, np.arange(9) > 2])[:rows]
    ids = np.where(real, rng.integers(1, 31, real.shape), 0)
    labels = rng.integers(0, 3, rows)

    def call(model):
        logits = model(ids, mask=masks.valid(real))
        return Outputs(cross_entropy(logits, labels), logits)

    places = np.broadcast_to(np.arange(9), ids.shape)
    inputs = dict(input_ids=ids, attention_mask=real, labels=labels, position_ids=places)
    Twins(theirs, tmp_path, record).check(call, inputs)


REAL = np.arange(7) >= np.array([[0], [2], [5], [6]])  # padded on the left
PROMPT = np.where(REAL, np.random.default_rng(0).integers(1, 31, REAL.shape), 0)


def written(theirs, **options):
    """What the twin writes after the prompts."""
    prompt, real = torch.tensor(PROMPT), torch.tensor(REAL).long()
    tokens = theirs.generate(prompt, attention_mask=real, do_sample=False, **options)
    return tokens[:, PROMPT.shape[1] :].numpy()


def test_greedy_and_beam_search_end_where_the_twin_ends(x64, tmp_path, record):
    config = transformers.GPT2Config(**SIZES, tie_word_embeddings=False)
    theirs = redraw(transformers.GPT2LMHeadModel(config))
    theirs.lm_head.weight.data *= 4  # sure of itself: no end is probable that is not among the best
    twins = Twins(theirs, tmp_path, record)
    graph, state = nnx.split(twins.ours)
    for beams, end in ((1, 10), (3, 10), (3, 15)):

        def search(state, beams=beams, end=end):
            options = None if beams == 1 else Beam(beams, length_penalty=0.0)
            specials = Specials(end, end, end)
            model = nnx.merge(graph, state)
            return generate(model, PROMPT, options, length=21, specials=specials, real=REAL)

        told = written(
            theirs,
            max_new_tokens=20,
            num_beams=beams,
            length_penalty=0.0,
            eos_token_id=end,
            pad_token_id=end,
        )
        told = np.pad(told, ((0, 0), (0, 21 - told.shape[1])), constant_values=end)
        lengths = (told == end).argmax(-1)
        assert len(set(lengths)) > 2
        assert lengths.max() < 20
        found = jax.jit(search, compiler_options=QUICK)(state)
        np.testing.assert_array_equal(found.tokens[:, 0], told)
        np.testing.assert_array_equal(found.lengths[:, 0], lengths + 1)
        twins.record("greedy search" if beams == 1 else "beam search", "same tokens")


def test_all_of_a_beam_is_the_twins_beam(x64, tmp_path, record):
    """Where all sequences have the same length, the n-best lists are the same, in the same order."""
    theirs = redraw(transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES)), seed=1)
    twins = Twins(theirs, tmp_path, record)
    graph, state = nnx.split(twins.ours)
    length, end, never = 9, 0, 31

    def search(state):
        model = nnx.merge(graph, state)
        cache = Continuation.start(model, PROMPT, beams=4, length=length + 1, real=REAL)

        def step(tokens, cache):
            """The end's probability goes to a word that is never said, and at the end all to it."""
            logits, cache = model.step(tokens, cache)
            logits = (
                jnp.concatenate([logits, logits[..., end : end + 1]], -1).at[..., end].set(-jnp.inf)
            )
            only = jnp.where(jnp.arange(32) == end, 0.0, -jnp.inf)
            return jnp.where(cache.length == PROMPT.shape[1] + length, only, logits), cache

        return beam(
            step,
            cache,
            jnp.full(4, length + 1),
            Beam(4, length_penalty=0.0, best=4),
            length=length + 1,
            specials=Specials(never, never, end),
            first=jnp.asarray(PROMPT[:, -1]),
        )

    found = jax.jit(search, compiler_options=QUICK)(state)
    told = written(
        theirs, max_new_tokens=length, min_new_tokens=length, num_beams=4, num_return_sequences=4,
        length_penalty=0.0, eos_token_id=end, pad_token_id=end,
    )  # fmt: skip
    np.testing.assert_array_equal(found.tokens[..., :length].reshape(16, length), told)
    assert len(np.unique(told, axis=0)) == 16
    twins.record("beam search", "same tokens")


def test_a_cache_gives_the_logits_of_the_twins_cache(x64, tmp_path, record):
    theirs = redraw(transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES)))
    twins = Twins(theirs, tmp_path, record)
    graph, state = nnx.split(twins.ours)
    step = jax.jit(lambda *a: nnx.merge(graph, state).step(*a), compiler_options=QUICK)
    ours = Continuation.start(twins.ours, PROMPT, beams=1, length=4, real=REAL)
    tokens, real = torch.tensor(PROMPT), torch.tensor(REAL).long()
    cached = None
    for _ in range(4):
        places = (real.cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        with torch.no_grad():
            told = theirs(
                tokens, attention_mask=real, position_ids=places, cache=cached, use_cache=True
            )
        logits, ours = step(jnp.asarray(tokens[:, -1:].numpy()), ours)
        twins.same("logits, cached", logits[:, 0], told.logits[:, -1])
        cached, tokens = told.cache, told.logits[:, -1:].argmax(-1)
        real = torch.cat([real, torch.ones_like(real[:, :1])], dim=1)
