"""Continuing prompts: what is written is what the whole model says, whatever the padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.decode import Beam, Sample, Specials, generate, pick
from attn_jax.decode.cache import Continuation
from tests.interop.small import GPT_, drawn

PROMPT = jnp.array([[5, 6, 7], [0, 0, 4]])
REAL = jnp.array([[True] * 3, [False, False, True]])
SPECIALS = Specials(0, 1, 2)


def written(options, prompt=PROMPT, real=REAL, **more):
    graph, state = nnx.split(drawn(GPT_))

    def run(state):
        model = nnx.merge(graph, state)
        return generate(model, prompt, options, length=6, specials=SPECIALS, real=real, **more)

    return jax.jit(run)(state)


@pytest.mark.slow
def test_greedy_search_writes_what_the_whole_model_finds_most_probable():
    found = written(None)
    model = jax.jit(drawn(GPT_))
    for row in range(2):
        prompt, tokens = np.asarray(PROMPT[row][REAL[row]]), np.asarray(found.tokens[row, 0])
        length = int(found.lengths[row, 0])
        said = np.zeros(9, int)  # what follows changes nothing
        said[: len(prompt) + length] = np.concatenate([prompt, tokens[:length]])
        logits = model(jnp.asarray(said)[None])[0, len(prompt) - 1 :][:length]
        allowed = logits.at[:, jnp.array([SPECIALS.pad, SPECIALS.bos])].set(-jnp.inf)
        assert (tokens[: min(length, 5)] == allowed.argmax(-1)[:5]).all()  # the sixth can only end
        assert tokens[length - 1] == SPECIALS.eos
        total = jax.nn.log_softmax(logits)[jnp.arange(length), tokens[:length]].sum()
        np.testing.assert_allclose(found.log_probabilities[row, 0], total, rtol=1e-4)


@pytest.mark.slow
def test_a_row_writes_what_it_would_write_alone():
    together = written(Beam(3, best=2))
    alone = written(Beam(3, best=2), PROMPT[1:, 2:], None)
    np.testing.assert_array_equal(together.tokens[1:], alone.tokens)
    np.testing.assert_allclose(together.scores[1:], alone.scores, rtol=1e-4)


@pytest.mark.slow
def test_drawing_when_cold_is_greedy():
    cold = written(Sample(temperature=1e-4), rngs=jax.random.split(jax.random.key(0), 2))
    np.testing.assert_array_equal(cold.tokens, written(None).tokens)


@pytest.mark.slow
@pytest.mark.parametrize("options", [None, Sample(0.9, top_k=9, top_p=0.95)])
def test_token_by_token_the_same_is_written(options):
    rngs = jax.random.split(jax.random.key(0), 2)
    whole = written(options, rngs=rngs)
    model = drawn(GPT_)
    cache = Continuation.start(model, PROMPT, beams=1, length=6, real=REAL)
    step, token = jax.jit(model.step), PROMPT[:, -1:]
    for t in range(5):  # the sixth can only be the end
        logits, cache = step(token, cache)
        token = pick(logits, t, options, rngs, specials=SPECIALS)
        going = t < np.asarray(whole.lengths[:, 0])
        np.testing.assert_array_equal(token[going, 0], whole.tokens[going, 0, t])


def test_what_does_not_fit_is_refused():
    model = drawn(GPT_)
    with pytest.raises(ValueError, match="a key for each row"):
        jax.eval_shape(lambda: generate(model, PROMPT, Sample(), length=4, specials=SPECIALS))
    with pytest.raises(ValueError, match="need 13 positions; the model has 12"):
        generate(model, PROMPT, None, length=11, specials=SPECIALS)
    with pytest.raises(ValueError, match="real of the same shape"):
        generate(model, PROMPT, None, length=4, specials=SPECIALS, real=REAL[:, :2])
