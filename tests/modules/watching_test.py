"""Looking at a model's attention: what is seen, and that looking changes nothing."""

import chex
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from attn_jax import Rule, biases, features, masks, normalizers, scores
from attn_jax.functional.dropout import Dropout
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules import BlockOptions, MultiHeadAttention, capture, gated

pytestmark = pytest.mark.slow  # the doctests are the fast ones

SOURCE, INPUTS = jnp.array([[5, 6, 7, 2], [8, 2, 0, 0]]), jnp.array([[1, 9, 4], [1, 3, 3]])


@pytest.fixture(scope="module")
def model():
    options = BlockOptions(width=8, hidden=16, heads=2, attention_dropout=0.5)
    rule = Rule(bias=biases.alibi(2))
    return Transformer(TransformerConfig(11, None, 2, 2, options), rule=rule, rngs=nnx.Rngs(0))


def test_every_look_is_seen_in_order_and_named_by_its_module(model):
    _, looks = capture(Transformer.__call__, model, SOURCE, INPUTS)
    decoder = [f"decoder.{i}.{kind}_attention" for i in range(2) for kind in ("self", "cross")]
    assert list(looks) == ["encoder.0.self_attention", "encoder.1.self_attention", *decoder]
    assert looks["decoder.1.cross_attention"].weights().shape == (2, 2, 3, 4)


def test_captured_weights_are_those_the_model_gives(model):
    _, looks = capture(Transformer.__call__, model, SOURCE, INPUTS)
    for i, expected in enumerate(model.cross_attention(SOURCE, INPUTS)):
        chex.assert_trees_all_close(looks[f"decoder.{i}.cross_attention"].weights(), expected)


@pytest.mark.parametrize("rng", [None, jax.random.key(3)])
@pytest.mark.parametrize("backend", ["auto", "dense", "blockwise"])
def test_looking_changes_no_bit(model, backend, rng):
    attentions = [m for _, m in nnx.iter_modules(model) if isinstance(m, MultiHeadAttention)]
    for attention in attentions:
        attention.backend = backend
    y, looks = capture(Transformer.__call__, model, SOURCE, INPUTS, rng=rng)
    chex.assert_trees_all_equal(y, model(SOURCE, INPUTS, rng=rng))
    again = looks["encoder.0.self_attention"].weights()
    assert jnp.allclose(again.sum(-1), 1)  # before dropout
    for attention in attentions:
        attention.backend = "auto"
    assert not [m for m in attentions if set(vars(m)) != set(vars(attentions[0]))]


REAL = jnp.arange(8) < jnp.array([[8], [5]])
MASKS = {
    "everything": masks.everything(),
    "causal": masks.causal(),
    "window and global": masks.window(2, 1) | masks.global_tokens(queries=REAL, keys=~REAL),
    "valid": masks.valid(REAL),
    "segments": masks.segments(jnp.arange(8) // 3),
    "explicit": masks.explicit(jnp.arange(64).reshape(8, 8) % 3 > 0),
    "per head": masks.per_head([masks.causal(), ~masks.diagonal()]),
    "nothing": ~masks.everything(),
}


@pytest.mark.parametrize("backend", ["dense", "blockwise", "fused", "linear"])
@pytest.mark.parametrize("name", MASKS)
def test_looking_changes_no_bit_under_any_mask_on_any_backend(name, backend):
    score = scores.kernel(features.elu_plus_one()) if backend == "linear" else scores.scaled_dot()
    normalizer = normalizers.l1() if backend == "linear" else normalizers.softmax()
    rule = Rule(score, mask=MASKS[name], normalizer=normalizer)
    dropout = 0.5 if backend in ("dense", "blockwise") else 0.0
    attention = MultiHeadAttention(8, 2, rule=rule, dropout=dropout, rngs=nnx.Rngs(0))
    attention.backend = backend
    x = jax.random.normal(jax.random.key(1), (2, 8, 8))
    noise = Dropout(dropout, jax.random.key(2)) if dropout else None
    try:
        plain = attention(x, noise=noise)
    except ValueError:
        pytest.skip(f"{backend} refuses this mask")
    y, looks = capture(MultiHeadAttention.__call__, attention, x, noise=noise)
    chex.assert_trees_all_equal(y, plain)
    total = looks[""].weights().sum(-1)
    assert jnp.allclose(jnp.where(total > 0, total, 1), 1, atol=1e-5)


def test_capture_is_a_function_that_jit_and_vmap_take(model):
    graph, state = nnx.split(model)

    @jax.jit
    def f(state, source, inputs):
        return capture(Transformer.__call__, nnx.merge(graph, state), source, inputs)

    y, looks = f(state, SOURCE, INPUTS)
    chex.assert_trees_all_close(y, model(SOURCE, INPUTS), atol=1e-6)
    assert list(looks)[1:4:2] == ["encoder.1.self_attention", "decoder.0.cross_attention"]
    chex.assert_trees_all_close(
        looks["encoder.1.self_attention"].y,
        capture(Transformer.__call__, model, SOURCE, INPUTS)[1]["encoder.1.self_attention"].y,
        atol=1e-6,
    )


def test_a_module_that_looks_twice_is_seen_twice():
    attention = MultiHeadAttention(8, 2, rngs=nnx.Rngs(0))

    def twice(attention, x):
        return attention(attention(x), mask=masks.causal())

    _, looks = capture(twice, attention, jnp.ones((3, 8)))
    assert list(looks) == ["", " (2)"]
    assert looks[" (2)"].weights()[0, 0, 1] == 0


def test_watching_ends_with_the_call_and_with_its_errors(model):
    with pytest.raises(ZeroDivisionError):
        capture(lambda model: 1 / 0, model)
    y, looks = capture(lambda model: 3, model)
    assert (y, looks) == (3, {})


def test_a_gate_of_one_changes_nothing_and_of_zero_takes_a_head_away(model):
    path = "encoder.0.self_attention"
    plain = model(SOURCE, INPUTS)
    ones = gated(Transformer.__call__, model, {path: jnp.ones(2)}, SOURCE, INPUTS)
    chex.assert_trees_all_equal(ones, plain)
    first = gated(Transformer.__call__, model, {path: jnp.array([0.0, 1])}, SOURCE, INPUTS)
    attention = model.encoder[0].self_attention
    kernel = attention.out.kernel[...]
    attention.out.kernel.set_value(kernel.at[:4].set(0))  # head 0 occupies the first half
    chex.assert_trees_all_close(first, model(SOURCE, INPUTS), atol=1e-6)
    attention.out.kernel.set_value(kernel)
    with pytest.raises(ValueError, match="nothing looked at"):
        gated(Transformer.__call__, model, {"encoder.7": jnp.ones(2)}, SOURCE, INPUTS)
