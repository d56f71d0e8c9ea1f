"""The Transformer: causality by differentiation, padding, cached decoding, pictures, sizes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.decode.cache import Cache
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions

SOURCE = jnp.array([[5, 6, 7, 2, 0, 0], [4, 4, 8, 9, 10, 2]])
INPUTS = jnp.array([[1, 11, 12, 13, 14], [1, 20, 21, 22, 23]])


@pytest.fixture(scope="module", params=["post", pytest.param("pre", marks=pytest.mark.slow)])
def model(request):
    blocks = BlockOptions(
        width=16, hidden=32, heads=4, key_value_heads=2, norm=request.param, attention_dropout=0.1
    )
    return Transformer(TransformerConfig(50, None, 1, 2, blocks), rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def call(model):
    """The model, compiled once a shape."""
    graph, state = nnx.split(model)
    jitted = jax.jit(lambda state, *args, **options: nnx.merge(graph, state)(*args, **options))
    return functools.partial(jitted, state)


def test_altering_a_target_token_changes_no_logits_before_it(call):  # T13
    before = call(SOURCE, INPUTS)
    after = call(SOURCE, INPUTS.at[:, 3].set(40))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert jnp.abs(before[:, 3:] - after[:, 3:]).max() > 1e-3


def test_padding_changes_nothing(call):
    short = call(SOURCE[:1, :4], INPUTS[:1])
    np.testing.assert_allclose(call(SOURCE[:1], INPUTS[:1]), short, atol=1e-5)
    repadded = jnp.concatenate([SOURCE, jnp.zeros((2, 3), int)], axis=1)
    np.testing.assert_allclose(call(repadded, INPUTS), call(SOURCE, INPUTS), atol=1e-5)


@pytest.mark.slow
def test_a_row_of_padding_is_finite_and_moves_nothing(call):
    rows = jnp.zeros((1, 6), int)
    logits = call(jnp.concatenate([SOURCE, rows]), jnp.concatenate([INPUTS, rows[:, :5]]))
    assert jnp.isfinite(logits).all()
    np.testing.assert_allclose(logits[:2], call(SOURCE, INPUTS), atol=1e-5)


def test_cached_steps_equal_the_full_pass_for_every_hypothesis(model, call):  # A7
    full = call(SOURCE, INPUTS)
    cache = Cache.start(model, SOURCE, beams=3, length=8)
    graph, state = nnx.split(model)
    step = jax.jit(lambda tokens, cache: nnx.merge(graph, state).step(tokens, cache))
    for t in range(5):
        logits, cache = step(jnp.repeat(INPUTS[:, t : t + 1], 3, axis=1), cache)
        np.testing.assert_allclose(logits, jnp.repeat(full[:, t : t + 1], 3, 1), atol=1e-5)


@pytest.mark.slow
def test_selecting_hypotheses_carries_their_past_along(model, call):
    graph, state = nnx.split(model)

    @jax.jit
    def decode(state):
        model = nnx.merge(graph, state)
        cache = Cache.start(model, SOURCE, beams=2, length=8)
        _, cache = model.step(jnp.array([[1, 1], [1, 1]]), cache)
        _, cache = model.step(jnp.array([[11, 30], [20, 31]]), cache)
        cache = cache.select(jnp.array([[1, 0], [0, 0]]))
        return model.step(jnp.array([[12, 12], [21, 21]]), cache)[0]

    logits = decode(state)

    def prefix(*tokens):
        return jnp.array([tokens])

    swapped = call(SOURCE[:1], prefix(1, 30, 12))[:, -1]
    np.testing.assert_allclose(logits[0, 0], swapped[0], atol=1e-5)
    kept = call(SOURCE[1:], prefix(1, 20, 21))[:, -1]
    np.testing.assert_allclose(logits[1], jnp.repeat(kept, 2, 0), atol=1e-5)


@pytest.mark.slow
def test_dropout_follows_the_example_and_not_its_company(call):
    keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(0), n))(jnp.arange(2))
    together = call(SOURCE, INPUTS, rng=keys)
    np.testing.assert_allclose(together[1:], call(SOURCE[1:], INPUTS[1:], rng=keys[1:]), atol=1e-5)
    assert jnp.abs(together - call(SOURCE, INPUTS)).max() > 0.1


@pytest.mark.slow
def test_cross_attention_shows_each_layer_and_never_padding(model):
    weights = model.cross_attention(SOURCE, INPUTS)
    assert [w.shape for w in weights] == [(2, 4, 5, 6)] * 2
    for w in weights:
        np.testing.assert_allclose(w.sum(-1), 1, atol=1e-5)
        assert (w[0, :, :, 4:] == 0).all()


@pytest.mark.parametrize("target_vocabulary", [None, 30])
def test_parameters_are_as_many_as_the_formulas_say(target_vocabulary):
    m, f, v = 16, 32, 50
    config = TransformerConfig(v, target_vocabulary, 1, 1, BlockOptions(width=m, hidden=f, heads=4))
    model = Transformer(config, rngs=nnx.Rngs(0))
    attention, network, norm = 4 * (m * m + m), 2 * m * f + m + f, 2 * m
    blocks = attention + network + 2 * norm + 2 * attention + network + 3 * norm
    count = sum(x.size for x in jax.tree.leaves(nnx.state(model, nnx.Param)))
    assert count == blocks + v * m + (target_vocabulary or 0) * m


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "t5"])
def test_packed_pairs_have_the_logits_losses_and_gradients_of_a_row_each(positions):
    pairs = [([5, 6, 2], [1, 11, 12]), ([7, 2], [1, 20, 21, 22]), ([8, 9, 10, 2], [1, 13])]
    blocks = BlockOptions(width=16, hidden=32, heads=4)
    config = TransformerConfig(50, None, 1, 1, blocks, positions=positions)
    graph, params, rest = nnx.split(Transformer(config, rngs=nnx.Rngs(0)), nnx.Param, ...)
    table = lambda side, width: np.array(  # noqa: E731
        [pair[side] + [0] * (width - len(pair[side])) for pair in pairs]
    )
    packed = [np.concatenate([pair[side] for pair in pairs] + [[0]])[None] for side in (0, 1)]
    segments = tuple(
        np.array([[i for i, pair in enumerate(pairs) for _ in pair[side]] + [-1]])
        for side in (0, 1)
    )

    def losses(params, source, inputs, segments=None):
        logits = nnx.merge(graph, params, rest)(source, inputs, segments=segments)
        chosen = jax.nn.log_softmax(logits)[..., 17]
        return jnp.where(inputs != 0, chosen, 0).sum(), logits

    (alone, logits), slopes = jax.value_and_grad(losses, has_aux=True)(
        params, table(0, 5), table(1, 6)
    )
    (together, row), packed_slopes = jax.value_and_grad(losses, has_aux=True)(
        params, *packed, segments
    )
    one_by_one = np.concatenate([logits[i, : len(pair[1])] for i, pair in enumerate(pairs)])
    np.testing.assert_allclose(row[0, :-1], one_by_one, atol=1e-5)
    np.testing.assert_allclose(together, alone, rtol=1e-6)
    for a, b in zip(jax.tree.leaves(packed_slopes), jax.tree.leaves(slopes), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
