"""GPT and BERT: published sizes, causality, padding, cached steps, heads."""

import dataclasses
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import masks
from attn_jax.decode.cache import Continuation
from attn_jax.models.bert import Bert
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.models.transformer import Transformer
from attn_jax.modules.positional import Kind
from tests.interop.small import BERT, GPT_, drawn

IDS = jnp.array([[5, 6, 7, 8, 9, 4], [3, 4, 8, 9, 10, 2]])
PUBLISHED = {
    "GPT.small": (GPT.small, 124_439_808),
    "GPT.medium": (GPT.medium, 354_823_168),
    "GPT.large": (GPT.large, 774_030_080),
    "GPT.xl": (GPT.xl, 1_557_611_200),
    "Bert.base": (Bert.base, 109_482_240),
    "Bert.large": (Bert.large, 335_141_888),
    "Bert.base, language model": (lambda: Bert.base("masked_language_model"), 109_514_298),
    "Bert.roberta_base": (Bert.roberta_base, 124_645_632),
    "Bert.roberta_large, language model": (
        lambda: Bert.roberta_large("masked_language_model"),
        355_412_057,
    ),
}


@pytest.mark.parametrize(
    "size",
    [
        *("GPT.small", "Bert.base, language model"),
        *(
            pytest.param(s, marks=pytest.mark.slow)
            for s in PUBLISHED
            if s not in ("GPT.small", "Bert.base, language model")
        ),
    ],
)
def test_a_preset_has_as_many_parameters_as_were_published(size):
    make, count = PUBLISHED[size]
    state = nnx.state(nnx.eval_shape(make), nnx.Param)
    assert sum(x.size for x in jax.tree.leaves(state)) == count


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "millions"), [("base", 65), ("big", 213)])
def test_a_transformer_has_about_the_millions_that_were_published(preset, millions):
    """Vaswani et al. (2017), table 3, with a vocabulary of about 37,000 tokens."""
    state = nnx.state(nnx.eval_shape(getattr(Transformer, preset)), nnx.Param)
    count = sum(x.size for x in jax.tree.leaves(state))
    assert count == pytest.approx(millions * 1e6, rel=0.03)


@pytest.fixture(scope="module")
def gpt():
    return drawn(GPT_)


@pytest.fixture(scope="module")
def full(gpt):
    return jax.jit(lambda ids: gpt(ids))(IDS)


@pytest.mark.slow
def test_a_token_changes_no_logits_before_it(gpt, full):
    @jax.jit
    def slope(x):
        """How the logits of position 2 move with the embedding of each token."""
        return jax.grad(lambda x: gpt.layers[0](x)[0, 2].sum())(x)

    moved = jnp.abs(slope(gpt.embedding(IDS) + gpt.positions(jnp.arange(6)))).sum(-1)
    assert (moved[0, :3] > 0).all()
    assert (moved[0, 3:] == 0).all()


@pytest.mark.slow
def test_cached_steps_from_padded_prompts_equal_the_full_pass(gpt, full):
    prompt = jnp.stack([IDS[0, :3], jnp.array([0, 3, 4])])
    real = jnp.array([[True] * 3, [False, True, True]])
    cache = Continuation.start(gpt, prompt, beams=2, length=4, real=real)
    fed = [prompt[:, 2], jnp.array([8, 8]), jnp.array([9, 9])]
    step = jax.jit(gpt.step)
    for t, tokens in enumerate(fed):
        logits, cache = step(jnp.repeat(tokens[:, None], 2, 1), cache)
        np.testing.assert_allclose(logits[0], jnp.repeat(full[:1, 2 + t], 2, 0), atol=1e-4)
        np.testing.assert_allclose(logits[1], jnp.repeat(full[1:, 1 + t], 2, 0), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", get_args(Kind))
def test_any_positions_serve_whole_passes_and_cached_steps(kind):
    model = GPT(dataclasses.replace(GPT_, kind=kind), rngs=nnx.Rngs(0))
    cache = Continuation.start(model, IDS[:, :3], beams=1, length=4)
    full, step = jax.jit(lambda ids: model(ids))(IDS), jax.jit(model.step)
    for t in (2, 3, 4):
        logits, cache = step(IDS[:, t : t + 1], cache)
        np.testing.assert_allclose(logits[:, 0], full[:, t], atol=1e-4)
    assert model.longest == (12 if kind == "learned" else None)


@pytest.mark.slow
def test_padding_changes_nothing_and_dropout_follows_the_example():
    model = drawn(BERT)
    call = jax.jit(lambda ids, mask, rng=None: model(ids, mask=masks.valid(mask), rng=rng))
    short = call(IDS[:1, :4], jnp.ones((1, 4), bool))
    padded = call(IDS, jnp.arange(6) < jnp.array([[4], [6]]))
    np.testing.assert_allclose(padded[:1, :4], short, atol=1e-4)
    keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(0), n))(jnp.arange(2))
    real = jnp.ones((2, 6), bool)
    together = call(IDS, real, keys)
    np.testing.assert_allclose(together[1:], call(IDS[1:], real[1:], keys[1:]), atol=1e-4)
    assert jnp.abs(together - call(IDS, real)).max() > 0.1


@pytest.mark.slow
def test_a_new_head_says_something_of_another_shape():
    model = drawn(BERT)
    shapes = {
        None: (2, 6, 8),
        "pretraining": ((2, 6, 23), (2, 2)),
        "next_sentence": (2, 2),
        "question_answering": (2, 6, 2),
        "sequence_classification": (2, 3),
        "token_classification": (2, 6, 3),
        "masked_language_model": (2, 6, 23),
    }
    for head, shape in shapes.items():
        model.set_head(head, labels=3, rngs=nnx.Rngs(0))
        said = jax.eval_shape(lambda: model(IDS))
        assert (tuple(x.shape for x in said) if head == "pretraining" else said.shape) == shape
    with pytest.raises(ValueError, match=r"one of masked_language_model, .* got 'answers'"):
        model.set_head("answers", rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="\"sequence_classification\", got 'answers'"):
        GPTConfig(head="answers")


def test_more_tokens_than_positions_are_refused(gpt):
    long = jnp.ones((1, 13), int)
    with pytest.raises(ValueError, match="13 tokens, but the model has 12 positions"):
        gpt(long)
    with pytest.raises(ValueError, match="13 tokens, but the model has 12 positions"):
        drawn(BERT)(long)
    with pytest.raises(ValueError, match="the model has 12"):
        Continuation.start(gpt, IDS, beams=1, length=8)
