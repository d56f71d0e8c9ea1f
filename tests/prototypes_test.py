"""Ten things a researcher writes, on the day the idea comes."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import attn_jax
from attn_jax import Positions, Rule, attend, attention_weights, biases, masks, scores, trainable
from attn_jax.modules.attention import MultiHeadAttention


def needs(*names):
    """Expected to fail until these parts of attn_jax are built, and to pass from then on."""

    def missing(name):
        try:
            operator.attrgetter(name)(attn_jax)
        except AttributeError:
            return True
        return False

    absent = ", ".join(name for name in names if missing(name))
    return pytest.mark.xfail(bool(absent), reason=f"not built yet: {absent}", strict=True)


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def test_a_new_score():
    q, k, v = normal(0, 3, 2, 5, 1, 4)

    def negative_manhattan(query, key, *, w):  # of two vectors
        return -w * jnp.abs(query - key).sum()

    def loss(w):
        return (attend(q, k, v, rule=Rule(scores.pairwise(negative_manhattan, w=w))) ** 2).sum()

    def by_hand(w):
        distance = jnp.abs(q[:, :, None, 0] - k[:, None, :, 0]).sum(-1)
        return ((jax.nn.softmax(-w * distance) @ v[:, :, 0]) ** 2).sum()

    close(jax.jit(jax.value_and_grad(loss))(0.7), jax.jit(jax.value_and_grad(by_hand))(0.7))


def test_a_new_mask():
    odd_to_even = masks.where(lambda i, j: (i % 2 == 1) & (j % 2 == 0))
    rule = Rule() & ((odd_to_even & masks.causal()) | masks.diagonal())
    assert rule.mask.show(4) == "\n".join(["■ · · ·", "■ ■ · ·", "· · ■ ·", "■ · ■ ■"])
    q, k, v = normal(1, 3, 4, 1, 8)
    close(attend(q, k, v, rule=rule)[2], v[2])  # it looks at itself alone


@needs("biases.alibi")
def test_learnable_alibi():
    class Model(nnx.Module):
        rule: Rule = nnx.data()

        def __init__(self):
            self.rule = trainable(Rule(bias=biases.alibi(4), mask=masks.causal()))

        def __call__(self, x):
            return attend(x, x, x, rule=self.rule)

    x, model = normal(2, 1, 6, 4, 8), Model()
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    assert [p.shape for p in jax.tree.leaves(params)] == [(4,)]  # a slope per head

    @jax.jit
    def loss(params):
        return (nnx.merge(graph, params, rest)(x) ** 2).mean()

    slope_gradient = jax.tree.leaves(jax.grad(loss)(params))[0]
    assert np.isfinite(slope_gradient).all()
    assert (slope_gradient != 0).all()
    descent = optax.sgd(0.1)
    updates, _ = descent.update(jax.grad(loss)(params), descent.init(params))
    assert loss(optax.apply_updates(params, updates)) < loss(params)


@needs("patterns.longformer")
def test_longformer_with_global_tokens_chosen_per_document():
    q, k, v = normal(3, 3, 2, 8, 2, 4)
    is_global = np.zeros((2, 8), bool)
    is_global[0, 0] = is_global[1, [3, 5]] = True  # one token in one document, two in the other
    rule = Rule(mask=attn_jax.patterns.longformer(2, is_global))
    i, j = np.indices((8, 8))
    allowed = (abs(i - j) <= 1) | is_global[:, :, None] | is_global[:, None, :]
    weights = attention_weights(q, k, rule=rule)
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(allowed[:, None], weights.shape))
    assert attend(q, k, v, rule=rule).shape == q.shape


def test_cross_attention_in_a_decoder_with_a_cache():
    batch, t, s, width = 2, 5, 7, 8
    looking_back = MultiHeadAttention(width, 2, rule=Rule(mask=masks.causal()), rngs=nnx.Rngs(0))
    looking_over = MultiHeadAttention(width, 2, rngs=nnx.Rngs(1))
    memory, x = normal(4, batch, s, width), normal(5, batch, t, width)
    padding = masks.valid(np.arange(s) < np.array([[7], [4]]))

    @jax.jit
    def at_once(x):
        x_and_past = x + looking_back(x)
        return x_and_past + looking_over(x_and_past, memory, mask=padding)

    seen = looking_over.project(memory)  # keys and values of the memory: once

    def one_token(cache, n):
        new = jax.lax.dynamic_slice_in_dim(x, n, 1, axis=1)
        k, v = looking_back.project(new)
        cache = jax.tree.map(
            lambda full, new: jax.lax.dynamic_update_slice_in_dim(full, new, n, axis=1),
            cache,
            (k, v),
        )
        here = Positions(q=n[None], k=np.arange(t))  # the same causal mask says what is in the past
        y = new + looking_back.look(new, *cache, positions=here)
        return cache, (y + looking_over.look(y, *seen, mask=padding))[:, 0]

    empty = jax.tree.map(jnp.zeros_like, looking_back.project(x))
    _, by_token = jax.lax.scan(one_token, empty, jnp.arange(t))
    close(by_token.swapaxes(0, 1), at_once(x))


@needs("scores.additive")
def test_bahdanau_attention_in_a_gru_scan():
    batch, s, t, width = 2, 6, 4, 8
    memory, inputs = normal(6, batch, s, width), normal(7, t, batch, width)
    lengths = np.array([6, 3])
    weights = {
        "w_q": normal(8, width, 5), "w_k": normal(9, width, 5), "v": normal(10, 5),
    }  # fmt: skip
    gru = normal(11, 3, 3 * width, width) / width

    def states(weights, memory):
        rule = Rule(scores.additive(**weights), mask=masks.lengths(lengths))
        prepared = rule.prepare(memory[:, :, None])  # one head; projected once, outside the scan

        def step(state, x):
            query = state[:, None, None]
            context = attend(query, prepared, memory[:, :, None], rule=rule)[:, 0, 0]
            everything = jnp.concatenate([state, x, context], -1)
            update, reset = jax.nn.sigmoid(everything @ gru[0]), jax.nn.sigmoid(everything @ gru[1])
            new = jnp.tanh(jnp.concatenate([reset * state, x, context], -1) @ gru[2])
            state = update * state + (1 - update) * new
            return state, state

        return jax.lax.scan(step, jnp.zeros((batch, width)), inputs)[1]

    pull = jax.jit(jax.grad(lambda w, m: (states(w, m) ** 2).sum(), argnums=(0, 1)))
    gradients = pull(weights, memory)
    assert all(np.abs(g).max() > 0 for g in gradients[0].values())
    assert np.abs(gradients[1][1, 3:]).max() == 0  # past the end of the shorter sentence

    first = jnp.einsum("a,bsa->bs", weights["v"], jnp.tanh(memory @ weights["w_k"]))  # state 0
    first = jax.nn.softmax(jnp.where(np.arange(s) < lengths[:, None], first, -jnp.inf))
    rule = Rule(scores.additive(**weights), mask=masks.lengths(lengths))
    looked_at = attention_weights(jnp.zeros((batch, 1, 1, width)), memory[:, :, None], rule=rule)
    close(looked_at[:, 0, 0], first)


@needs("scores.gaussian", "regress")
def test_nadaraya_watson_leaving_one_out():
    x = jnp.linspace(0, 3, 20)
    y = jnp.sin(2 * x) + 0.1 * normal(12, 20)

    def leave_one_out_error(bandwidth):
        rule = Rule(scores.gaussian(bandwidth)) & ~masks.diagonal()
        return ((attn_jax.regress(x, x, y, rule=rule) - y) ** 2).mean()

    def by_hand(bandwidth):
        kernel = jnp.exp(-0.5 * ((x[:, None] - x) / bandwidth) ** 2) * (1 - jnp.eye(20))
        return ((kernel @ y / kernel.sum(1) - y) ** 2).mean()

    ours, theirs = (jax.jit(jax.value_and_grad(f))(0.3) for f in (leave_one_out_error, by_hand))
    close(ours, theirs, tolerance=1e-4)


@needs("features.favor", "scores.kernel", "normalizers.l1", "backends.linear")
def test_performer():
    q, k, v = normal(13, 3, 1, 64, 2, 8) / 2
    random_features = attn_jax.features.favor(jax.random.key(0), 8, 512)
    rule = Rule(
        scores.kernel(random_features), mask=masks.causal(), normalizer=attn_jax.normalizers.l1()
    )

    @jax.jit
    def ways(q, k, v):
        exact = attend(q, k, v, rule=Rule(mask=masks.causal()))
        return [attend(q, k, v, rule=rule, backend=name) for name in ("linear", "dense")] + [exact]

    y, by_pairs, exact = ways(q, k, v)  # in O(n), and in O(n²)
    close(y, by_pairs, tolerance=1e-3)
    assert np.abs(y - exact).mean() < 0.15 * np.abs(exact).mean()


@needs("biases.alibi")
def test_a_rule_swapped_in_a_loaded_model():
    from attn_jax.models.transformer import Transformer, TransformerConfig
    from attn_jax.modules.blocks import BlockOptions

    options = BlockOptions(width=8, hidden=8, heads=4, dropout=0.0)
    model = Transformer(TransformerConfig(11, None, 1, 2, options), rngs=nnx.Rngs(0))
    attention = model.decoder[1].self_attention
    attention.rule = trainable(Rule(bias=biases.alibi(4), mask=masks.causal()))

    graph, params, rest = nnx.split(model, nnx.Param, ...)
    source, inputs = jnp.array([[4, 5, 6, 7]]), jnp.array([[1, 8, 9]])

    def loss(params):
        return (nnx.merge(graph, params, rest)(source, inputs) ** 2).sum()

    gradients = jax.jit(jax.grad(loss))(params)
    (slopes,) = jax.tree.leaves(gradients["decoder"][1]["self_attention"]["rule"])
    assert slopes.shape == (4,)
    assert (slopes != 0).all()


def test_vmap_over_an_ensemble():
    q, k, v = normal(14, 3, 2, 5, 1, 4)
    members = [Rule(scores.scaled_dot(scale), mask=masks.window(2, 2)) for scale in (0.1, 0.5, 2.0)]
    ensemble = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    look = jax.jit(lambda rule: attend(q, k, v, rule=rule))
    for answer, member in zip(jax.vmap(look)(ensemble), members, strict=True):
        close(answer, look(member))
