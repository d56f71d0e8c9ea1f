"""Each check fails a model that was broken on purpose, and passes a healthy one."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Rule, masks, scores
from attn_jax.diagnostics.examination import examine, influence
from attn_jax.diagnostics.verdicts import CHECKS, judge
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules import BlockOptions, capture

pytestmark = pytest.mark.slow

ids = jax.random.randint(jax.random.key(5), (2, 2, 12), 3, 20)
SOURCE, INPUTS = ids[0].at[1, 8:].set(0), ids[1].at[:, 0].set(1)
REAL = {"encoder": SOURCE != 0}
LAYER = "decoder.0.self_attention"


def healthy():
    """Untrained, with queries and keys large enough that heads choose."""
    options = BlockOptions(width=16, hidden=16, heads=4)
    model = Transformer(TransformerConfig(20, None, 1, 2, options), rngs=nnx.Rngs(0))
    for _, block in nnx.iter_graph([model.encoder, model.decoder]):
        if hasattr(block, "query"):
            for part in (block.query, block.key):
                part.kernel.set_value(1.7 * part.kernel[...])
    return model


@partial(jax.jit, static_argnums=0)
def numbers(graph, state, source, inputs, real):
    return examine(Transformer.__call__, nnx.merge(graph, state), source, inputs, real=real)


def numbers_of(model, source=SOURCE, inputs=INPUTS, real=REAL):
    return numbers(*nnx.split(model), source, inputs, real)


def verdicts(model, causal=("decoder",)):
    return judge(numbers_of(model), causal)


def attention():
    model = healthy()
    return model, model.decoder[0].self_attention


def show_the_future(model, layer):
    layer.rule = Rule(mask=masks.causal(1))


def look_at_itself(model, layer):
    layer.rule = layer.rule.replace(mask=masks.causal() & masks.window(0, 0))


def blow_up_scores(model, layer):
    layer.query.kernel.set_value(100 * layer.query.kernel[...])


def do_the_same(model, layer):
    for part in (layer.query, layer.key):
        kernel = part.kernel[...]
        part.kernel.set_value(kernel.at[:, 4:8].set(kernel[:, :4]))


def see_all_alike(model, layer):
    layer.rule = layer.rule.replace(score=scores.scaled_dot(1e-6))


def die(model, layer):
    layer.out.kernel.set_value(layer.out.kernel[...].at[12:].set(0))


def overflow(model, layer):
    layer.value.kernel.set_value(layer.value.kernel[...].at[0, 0].set(jnp.inf))


def test_a_healthy_model_passes():
    assert [str(verdict) for verdict in verdicts(healthy())] == []


@pytest.mark.parametrize(
    ("name", "break_it", "heads"),
    [
        ("future visible", show_the_future, None),
        ("diagonal only", look_at_itself, (0, 1, 2, 3)),
        ("scores too large", blow_up_scores, None),
        ("heads alike", do_the_same, (0, 1)),
        ("uniform", see_all_alike, (0, 1, 2, 3)),
        ("dead", die, (3,)),
        ("not finite", overflow, ()),
    ],
)
def test_a_model_broken_on_purpose_does_not(name, break_it, heads):
    model, layer = attention()
    break_it(model, layer)
    found = verdicts(model)
    assert name in [verdict.check.name for verdict in found], found
    (here,) = [v for v in found if v.check.name == name and v.layer == LAYER]
    assert heads is None or here.heads == heads
    assert {v.layer for v in found if v.check.name == name} == {LAYER}
    text = str(here)
    assert LAYER in text
    assert here.check.reason in text
    assert CHECKS[name].remedy


def test_not_finite_names_the_first_layer_alone_and_what_was_bad():
    model, layer = attention()
    overflow(model, layer)
    (verdict,) = verdicts(model)
    assert "in its values, output" in str(verdict)


def test_influence_of_a_loss_is_the_weights_times_their_gradient():
    model = healthy()

    def loss(model, source, inputs):
        return (model(source, inputs) ** 2).mean((1, 2)).sum()

    _, looks = capture(Transformer.__call__, model, SOURCE, INPUTS)
    got = influence(loss, model, looks, SOURCE, INPUTS)[LAYER]
    look, attention = looks[LAYER], model.decoder[0].self_attention

    def from_weights(weights):  # the loss as a function of this layer's weights
        def replaced(module, seen):
            if module is not attention:
                return seen.y
            return jnp.einsum("bhts,bshe->bthe", weights, seen.v)

        from attn_jax.modules import watched_by

        with watched_by(replaced):
            return loss(model, SOURCE, INPUTS)

    weights = look.weights()
    gradient = jax.grad(from_weights)(weights)
    expected = jnp.abs((weights * gradient).sum((-1, -2))).mean(0)
    chex.assert_trees_all_close(got, expected, rtol=1e-3, atol=1e-6)


def test_a_query_that_sees_one_key_alone_is_no_fault():
    one = numbers_of(healthy(), SOURCE[:, :3], INPUTS[:, :1], {"encoder": SOURCE[:, :3] != 0})
    assert not [v for v in judge(one, ["decoder"]) if v.layer == LAYER]


def test_an_unknown_beginning_is_refused():
    with pytest.raises(ValueError, match="no attention at 'decoders'"):
        judge({"decoder.0": None}, causal=["decoders"])


def test_long_sequences_are_streamed():
    from attn_jax.diagnostics.examination import head_numbers
    from attn_jax.modules import Look

    x = jax.ShapeDtypeStruct((8192, 2, 4), jnp.float32)
    rule = Rule(mask=masks.causal())

    def f(x):
        look = Look(x, x, x, rule, None, x)
        return head_numbers("", look, jnp.ones(2), None)

    memory = jax.jit(f).lower(x).compile().memory_analysis().temp_size_in_bytes
    assert memory < 8192 * 8192
    assert np.isfinite(memory)
