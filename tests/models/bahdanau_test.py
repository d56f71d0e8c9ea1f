"""Bahdanau's model and the fixed vector: formula, causality, padding, cached decoding, search."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.decode import Beam, score
from attn_jax.decode.translate import TargetLength, translate
from attn_jax.models.bahdanau import Bahdanau, RecurrentConfig, Seq2Seq

SOURCE = jnp.array([[5, 6, 7, 2, 0, 0], [4, 4, 8, 9, 10, 2]])
INPUTS = jnp.array([[1, 11, 12, 13, 14], [1, 16, 15, 14, 13]])
SIZES = RecurrentConfig(20, None, width=8, hidden=6, attention=5, dropout=0.2)


@pytest.fixture(scope="module", params=[Bahdanau, pytest.param(Seq2Seq, marks=pytest.mark.slow)])
def model(request):
    @jax.jit
    def params():  # far from uniform
        state = nnx.state(request.param(SIZES, rngs=nnx.Rngs(0)))
        return jax.tree.map(lambda x: 2 * x if x.ndim == 2 else x, state)

    graph = nnx.split(nnx.eval_shape(lambda: request.param(SIZES, rngs=nnx.Rngs(0))))[0]
    return nnx.merge(graph, params())


@pytest.fixture(scope="module")
def call(model):
    graph, state = nnx.split(model)
    jitted = jax.jit(lambda state, *args, **options: nnx.merge(graph, state)(*args, **options))
    return functools.partial(jitted, state)


def test_altering_a_target_token_changes_no_logits_before_it_and_the_source_is_read(call):
    logits = call(SOURCE, INPUTS)
    after = call(SOURCE, INPUTS.at[:, 3].set(19))
    np.testing.assert_array_equal(logits[:, :3], after[:, :3])
    assert jnp.abs(logits[:, 3:] - after[:, 3:]).max() > 1e-3
    other = call(SOURCE.at[:, 0].set(17), INPUTS)
    assert jnp.abs(logits - other).max() > 1e-3


@pytest.mark.slow
def test_padding_changes_nothing_and_a_row_of_it_is_finite(call):
    none = jnp.zeros((1, 6), int)
    padded = call(jnp.concatenate([SOURCE, none]), jnp.concatenate([INPUTS, none[:, :5]]))
    assert jnp.isfinite(padded).all()
    np.testing.assert_allclose(padded[:2], call(SOURCE, INPUTS), atol=1e-5)
    np.testing.assert_allclose(padded[:1], call(SOURCE[:1, :4], INPUTS[:1]), atol=1e-5)


@pytest.mark.slow
def test_cached_steps_equal_the_full_pass_and_hypotheses_carry_their_past_along(model, call):
    full = call(SOURCE, INPUTS)
    graph, state = nnx.split(model)

    @jax.jit
    def decode(state):
        model = nnx.merge(graph, state)
        cache = model.start(SOURCE, beams=2, length=8)
        found = []
        for t in range(5):
            tokens = jnp.stack([INPUTS[:, t], 3 + INPUTS[:, t] % 4], axis=1)
            parents = jnp.array([[t % 2, t % 2]] * 2)  # the true past is now here, now there
            logits, cache = model.step(tokens[:, :: 1 if t % 2 == 0 else -1], cache)
            found.append(logits[:, t % 2])
            cache = cache.select(parents)
        return jnp.stack(found, 1)

    np.testing.assert_allclose(decode(state), full, atol=1e-5)


@pytest.mark.slow
def test_dropout_follows_the_example_and_not_its_company(call):
    keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(0), n))(jnp.arange(2))
    together = call(SOURCE, INPUTS, rng=keys)
    swapped = call(SOURCE[::-1], INPUTS[::-1], rng=keys[::-1])
    np.testing.assert_allclose(together, swapped[::-1], atol=1e-5)
    assert jnp.abs(together - call(SOURCE, INPUTS)).max() > 0.01


@pytest.mark.slow
def test_a_beams_log_probabilities_are_those_of_a_forced_decoding(model, call):
    graph, state = nnx.split(model)
    length = TargetLength(ratio=1.0, extra=1, longest=8)
    search = jax.jit(
        lambda state: translate(nnx.merge(graph, state), SOURCE, Beam(3, best=2), length=length)
    )
    found = search(state)
    for i in range(2):
        labels = found.tokens[:, i]
        inputs = jnp.concatenate([jnp.ones((2, 1), jnp.int32), labels[:, :-1]], axis=1)
        forced = score(call(SOURCE, inputs), labels)
        np.testing.assert_allclose(forced.total, found.log_probabilities[:, i], atol=1e-4)


@pytest.mark.slow
def test_weights_are_the_softmax_of_the_formula_on_the_state_before():
    model = Bahdanau(SIZES, rngs=nnx.Rngs(3))
    [weights] = model.cross_attention(SOURCE, INPUTS)
    assert weights.shape == (2, 1, 5, 6)
    assert (weights[0, :, :, 4:] == 0).all()
    encoded = model.encode(SOURCE)
    w_q, w_k, v = (x[...] for x in (model.rule.score.w_q, model.rule.score.w_k, model.rule.score.v))
    state = jnp.tanh(model.bridge(encoded[:, 0, 6:]))
    for t in range(5):
        scores = jnp.tanh((state @ w_q)[:, None] + encoded @ w_k) @ v
        expected = jax.nn.softmax(jnp.where(SOURCE > 0, scores, -jnp.inf))
        np.testing.assert_allclose(weights[:, 0, t], expected, atol=1e-5)
        context = jnp.einsum("bs,bsm->bm", expected, encoded)
        words = model.decoder.inputs(model.target_embedding(INPUTS[:, t]))
        state = model.decoder.step(words + model.context_in(context), state)


def test_parameters_are_as_many_as_the_formulas_say():
    v, m, n, a = 20, 8, 6, 5
    gru = 3 * n * (m + n + 2)
    rest = n * n + n + 6 * n * n + 2 * m * (m + 3 * n + 1)
    for kind, attention in ((Seq2Seq, 0), (Bahdanau, a * (n + 2 * n + 1))):
        shapes = jax.eval_shape(
            lambda kind=kind: nnx.state(kind(SIZES, rngs=nnx.Rngs(0)), nnx.Param)
        )
        count = sum(x.size for x in jax.tree.leaves(shapes))
        assert count == v * m + 3 * gru + rest + attention
