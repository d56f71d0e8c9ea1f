"""Models that were loaded are operated on: rules replaced, parameters frozen, backends changed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from attn_jax import Rule, backends, biases, interop, masks, trainable
from attn_jax.decode.cache import Continuation
from tests.interop.small import BERT, GPT_, drawn, parameters

pytest.importorskip("safetensors", reason="published models are safetensors")
pytestmark = pytest.mark.slow


def loaded(config, directory, seed=0):
    interop.save(drawn(config, seed), directory)
    return interop.load(directory)


def trained(model, loss, steps, optimizer):
    """The losses of a few steps, after which the model holds what was learned."""
    graph, learned, rest = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def step(learned, state):
        value, slope = jax.value_and_grad(lambda p: loss(nnx.merge(graph, p, rest)))(learned)
        updates, state = optimizer.update(slope, state, learned)
        return optax.apply_updates(learned, updates), state, value

    state, losses = optimizer.init(learned), []
    for _ in range(steps):
        learned, state, value = step(learned, state)
        losses.append(float(value))
    nnx.update(model, learned)
    return losses


def recovery(ids):
    """How badly a masked language model recovers tokens that were hidden from it."""
    hidden = jnp.arange(ids.shape[1]) % 5 == 2

    def loss(model):
        logits = model(jnp.where(hidden, 1, ids))
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, ids)
        return (losses * hidden).sum() / (hidden.sum() * len(ids))

    return loss


def test_bert_goes_on_learning_through_a_window_of_64(tmp_path):
    model = loaded(dataclasses.replace(BERT, positions=100), tmp_path / "published")
    rng = np.random.default_rng(0)
    ids = jnp.asarray(rng.integers(3, 23, (2, 100)))
    before = jax.jit(lambda ids: model(ids))(ids[:, :33])
    for layer in model.layers:
        layer.self_attention.rule = Rule(mask=masks.window(32, 32))
    np.testing.assert_allclose(jax.jit(lambda ids: model(ids))(ids[:, :33]), before, atol=1e-5)
    (seen,) = model.attention_maps(ids)
    distance = jnp.abs(jnp.arange(100)[:, None] - jnp.arange(100))
    assert (np.asarray(seen)[..., distance > 32] == 0).all()
    losses = trained(model, recovery(ids), 8, optax.adam(1e-2))
    assert losses[-1] < 0.8 * losses[0]
    with pytest.raises(ValueError, match=r"window\(32, 32\)"):
        interop.save(model, tmp_path / "operated")


def test_gpt2_knows_where_tokens_stand_by_alibi(tmp_path):
    model = loaded(GPT_, tmp_path)
    model.positions = None
    for layer in model.layers:
        attention = layer.self_attention
        attention.rule = trainable(attention.rule.replace(bias=biases.alibi(attention.heads)))
    ids = jnp.asarray(np.random.default_rng(0).integers(3, 23, (2, 30)))  # it had 12 positions
    full = jax.jit(lambda ids: model(ids))(ids)
    cache = Continuation.start(model, ids[:, :21], beams=1, length=9)
    step = jax.jit(model.step)
    for t in range(20, 29):
        logits, cache = step(ids[:, t : t + 1], cache)
        np.testing.assert_allclose(logits[:, 0], full[:, t], atol=1e-4)
    slopes = model.layers[0].self_attention.rule.bias.slopes[...]

    def loss(model):
        losses = optax.softmax_cross_entropy_with_integer_labels(model(ids)[:, :-1], ids[:, 1:])
        return losses.mean()

    losses = trained(model, loss, 5, optax.adam(1e-2))
    assert losses[-1] < losses[0]
    assert (model.layers[0].self_attention.rule.bias.slopes[...] != slopes).all()


def test_all_but_biases_is_frozen_by_a_mask(tmp_path):
    model = loaded(BERT, tmp_path)
    before = parameters(model)

    def frozen(tree):
        def is_no_bias(path, _):
            return "bias" not in jax.tree_util.keystr(path)

        return jax.tree_util.tree_map_with_path(is_no_bias, tree)

    optimizer = optax.chain(optax.adam(1e-2), optax.masked(optax.set_to_zero(), frozen))
    ids = jnp.asarray(np.random.default_rng(0).integers(3, 23, (2, 12)))
    losses = trained(model, recovery(ids), 4, optimizer)
    assert losses[-1] < losses[0]
    moved = {path for path, array in parameters(model).items() if (array != before[path]).any()}
    assert moved == {path for path in before if path.endswith("bias")}


@pytest.mark.parametrize("config", [BERT, GPT_], ids=["bert", "gpt"])
def test_attention_through_any_backend_is_the_same(config, tmp_path, x64):
    model = loaded(config, tmp_path)
    ids = jnp.asarray(np.random.default_rng(0).integers(3, 23, (2, 12)))
    padding = masks.valid(jnp.arange(12) < jnp.array([[12], [7]]))

    def outcome(backend):
        for layer in model.layers:
            layer.self_attention.backend = backend
        graph, learned, rest = nnx.split(model, nnx.Param, ...)

        def loss(learned):
            logits = nnx.merge(graph, learned, rest)(ids, mask=padding)
            return jnp.sin(logits).sum(), logits

        return jax.jit(jax.grad(loss, has_aux=True))(learned)

    right = outcome("dense")
    for backend in ("auto", backends.blockwise(tile=(5, 4))):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-4),
            outcome(backend),
            right,
        )
