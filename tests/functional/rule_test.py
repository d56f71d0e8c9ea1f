import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import attn_jax
from attn_jax import Rule, biases, masks, normalizers, scores, trainable, transforms
from attn_jax.functional.rule import PreparedKeys
from attn_jax.functional.tiles import whole

attend = jax.jit(attn_jax.attend)
RNG = np.random.default_rng(0)
Q, K, V = jnp.asarray(RNG.normal(size=(3, 2, 5, 2, 4)), jnp.float32)
BIAS = jnp.asarray(RNG.normal(size=(2, 1, 5)), jnp.float32)


def negative_distance(q, k, *, w):
    return -w * jnp.abs(q - k).sum()


def rule(w=0.7, sink=0.1, cap=3.0):
    return Rule(
        scores.pairwise(negative_distance, w=w),
        bias=biases.dense(BIAS),
        transform=transforms.soft_cap(cap),
        mask=masks.causal() & masks.valid(np.array([True, True, False, True, True])),
        normalizer=normalizers.softmax(sink),
    )


def total(rule):
    return (attend(Q, K, V, rule=rule) ** 2).sum()


def test_defaults_are_scaled_dot_products_and_a_softmax_over_everything():
    default = Rule()
    assert repr(default) == "Rule()"
    assert repr(default.score), repr(default.normalizer) == ("scaled_dot()", "softmax()")
    assert (default.bias, default.transform) == (None, None)
    assert repr(default.mask) == "everything()"
    assert jax.tree.leaves(default) == []


def test_a_rule_prints_as_it_is_written():
    assert repr(Rule(scores.dot(), mask=masks.window(1, 0)) & masks.valid([True])) == (
        "Rule(score=dot(), mask=window(1, 0) & valid(bool[1]))"
    )
    assert repr(Rule(transform=transforms.soft_cap(2))) == "Rule(transform=soft_cap(2))"


def test_and_narrows_the_mask_of_a_new_rule():
    first = Rule(mask=masks.causal())
    second = first & masks.valid([True, False])
    assert repr(first.mask) == "causal()"
    assert repr(second.mask) == "causal() & valid(bool[2])"
    assert repr((Rule() & masks.causal()).mask) == "causal()"
    for other in (np.ones((2, 2), bool), Rule(), None, True):
        with pytest.raises(TypeError, match="masks combine with masks, got"):
            first & other
        with pytest.raises(TypeError, match="masks combine with masks, got"):
            Rule() & other


def test_rules_compare_by_identity():
    one = rule()
    assert one == one
    assert one != rule()


def test_a_rule_is_an_argument_of_a_compiled_function():
    compiled = []

    @jax.jit
    def run(rule):
        compiled.append(rule)
        return total(rule)

    np.testing.assert_allclose(run(rule()), total(rule()), rtol=1e-5)
    assert run(rule(w=0.2)) != run(rule(w=0.9))
    assert len(compiled) == 1


def test_a_rule_is_differentiated_in_its_leaves():
    gradient = jax.jit(jax.grad(total, allow_int=True))(rule())
    assert gradient.mask.b.array.dtype == jax.dtypes.float0  # booleans have no derivative
    value, step = jax.jit(lambda *numbers: total(rule(*numbers))), 1e-2
    slopes = gradient.score.leaves["w"], gradient.normalizer.sink, gradient.transform.c
    for which, slope in enumerate(slopes):
        up, down = ([0.7, 0.1, 3.0] for _ in range(2))
        up[which] += step
        down[which] -= step
        difference = (value(*up) - value(*down)) / (2 * step)
        np.testing.assert_allclose(slope, difference, rtol=1e-2, atol=1e-3)


def test_functions_and_python_numbers_are_static():
    one = Rule(scores.pairwise(negative_distance, w=1.0), mask=masks.window(1, 2))
    assert [x.shape for x in jax.tree.leaves(one)] == [()]
    other = jax.tree.map(lambda x: x + 1, one)
    assert other.score.fn is negative_distance
    assert repr(other.mask) == "window(1, 2)"


def test_rules_of_one_structure_are_stacked_scanned_and_mapped():
    members = [
        Rule(scores.scaled_dot(n), mask=masks.causal(), normalizer=normalizers.softmax(n))
        for n in (0.1, 1.0)
    ]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *members)
    expected = [attend(Q, K, V, rule=member) for member in members]
    mapped = jax.jit(jax.vmap(lambda r: attend(Q, K, V, rule=r)))(stacked)
    np.testing.assert_allclose(mapped, jnp.stack(expected), rtol=1e-5, atol=1e-6)
    scanned = jax.lax.scan(lambda c, r: (c, attend(Q, K, V, rule=r)), 0, stacked)[1]
    np.testing.assert_allclose(scanned, jnp.stack(expected), rtol=1e-5, atol=1e-6)
    carried, _ = jax.lax.scan(
        lambda r, _: (jax.tree.map(lambda x: x * 2, r), None), members[0], length=3
    )
    np.testing.assert_allclose(carried.score.scale, 0.8, rtol=1e-6)


def test_placeholders_may_stand_for_leaves():
    axes = jax.tree.map(lambda _: None, Rule(scores.scaled_dot(0.5), mask=masks.valid([True] * 5)))
    assert axes.score.scale is None
    names = jax.tree.map(
        lambda x: str(x.dtype), Rule(scores.scaled_dot(0.5), mask=masks.lengths([1]))
    )
    assert (names.score.scale, names.mask.n) == ("float32", "int64")
    shapes = jax.eval_shape(lambda: rule())
    assert shapes.bias.array == jax.ShapeDtypeStruct((2, 1, 5), jnp.float32)


def test_a_trainable_rule_trains_in_a_module():
    class Model(nnx.Module):
        rule: Rule = nnx.data()

        def __init__(self, rule):
            self.rule = rule

        def __call__(self, q, k, v):
            return attend(q, k, v, rule=self.rule & masks.lengths([5, 4]))

    plain = rule()
    model = Model(trainable(plain))
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    assert len(jax.tree.leaves(params)) == 4  # w, the bias, the cap and the sink; not the mask

    def loss(params):
        return (nnx.merge(graph, params, rest)(Q, K, V) ** 2).sum()

    value, gradients = jax.jit(jax.value_and_grad(loss))(params)
    np.testing.assert_allclose(
        value, (attend(Q, K, V, rule=plain & masks.lengths([5, 4])) ** 2).sum(), rtol=1e-5
    )
    assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(gradients))
    moved = jax.tree.map(lambda p, g: p - 1e-3 * g, params, gradients)
    assert loss(moved) < value
    assert len(jax.tree.leaves(nnx.split(Model(plain), nnx.Param, ...)[1])) == 0


def test_a_trainable_rule_prepares_keys():
    def scaled(rule):
        return attend(Q, rule.prepare(K), V, rule=rule)

    plain = Rule(scores.scaled_dot(0.3))
    np.testing.assert_allclose(scaled(trainable(plain)), attend(Q, K, V, rule=plain), rtol=1e-6)


class dot_minus_norm(scores.Score):
    """A score that prepares more than one array of the keys."""

    w: jax.Array

    def prepare_k(self, k):
        return {"projected": k @ self.w, "norm": (k**2).sum(-1, keepdims=True)}

    def pair(self, q, k):
        return jnp.einsum("...thd,...shd->...hts", q, k["projected"]) - jnp.moveaxis(
            k["norm"], -3, -1
        )


def test_prepared_keys_look_like_the_keys_they_were_made_from():
    made = Rule(dot_minus_norm(jnp.eye(4)), mask=masks.lengths([5, 3]))
    prepared = made.prepare(K)
    assert isinstance(prepared, PreparedKeys)
    assert (prepared.shape, prepared.ndim, prepared.dtype) == (K.shape, 4, jnp.float32)
    expected = attend(Q, K, V, rule=made)
    np.testing.assert_allclose(attend(Q, prepared, V, rule=made), expected, rtol=1e-5, atol=1e-6)
    hidden = jax.jit(made.prepare)(K.at[1, 3:].set(jnp.nan))
    np.testing.assert_allclose(attend(Q, hidden, V, rule=made), expected, rtol=1e-5, atol=1e-6)
    mapped = jax.vmap(lambda q, k, v: attend(q, k, v, rule=Rule(made.score)))(
        Q, Rule(made.score).prepare(K), V
    )
    np.testing.assert_allclose(mapped, attend(Q, K, V, rule=Rule(made.score)), rtol=1e-5, atol=1e-6)


def test_score_then_bias_then_transform():
    bias = BIAS[:1] * jnp.arange(5.0)[:, None]
    seen = []

    def halve_and_remember(s, i, j):
        seen.append((s, i, j))
        return s / 2

    made = Rule(scores.dot(), biases.dense(bias), halve_and_remember, masks.causal())
    tile = whole(5, 5)
    logits = made.logits(Q, K, tile)
    ((s, i, j),) = seen
    expected = jnp.einsum("bthd,bshd->bhts", Q, K) + bias
    np.testing.assert_allclose(s, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(logits, expected / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(i, tile.i)
    np.testing.assert_array_equal(j, tile.j)


@pytest.mark.usefixtures("x64")
def test_scores_keep_their_dtype_whatever_the_rules_numbers_are():
    wide = Rule(
        scores.scaled_dot(0.5),
        biases.dense(jnp.ones((5, 5), jnp.float64)),
        transforms.soft_cap(2.0),
        normalizer=normalizers.softmax(0.5),
    )
    assert {x.dtype for x in jax.tree.leaves(wide)} == {jnp.dtype("float64")}
    for transform in (
        wide.transform,
        lambda s, i, j: s.astype(jnp.bfloat16),
        lambda s, i, j: s > 0,
    ):
        logits = wide.replace(transform=transform).logits(Q, K, whole(5, 5))
        assert logits.dtype == jnp.float32
    assert wide.logits(Q.astype(jnp.float64), K, whole(5, 5)).dtype == jnp.float64


@pytest.mark.parametrize(
    "name", ["l2", "gaussian", "laplace", "boxcar", "triangular", "epanechnikov"]
)
def test_the_logarithm_of_a_kernel_is_no_weight(name):
    score, l1 = getattr(scores, name)(2.0), normalizers.l1()
    with pytest.raises(ValueError, match=rf"scores.{name}\(2\) is the logarithm .* with softmax"):
        Rule(score, normalizer=l1)
    with pytest.raises(ValueError, match=r"normalizers.l1 takes scores that are not negative"):
        Rule(score).replace(normalizer=l1)
    Rule(score, transform=lambda s, i, j: jnp.exp(s), normalizer=l1)


def test_other_scores_go_with_l1():
    for score in (scores.dot(), scores.kernel(jax.nn.relu), scores.pairwise(lambda q, k: 1.0)):
        Rule(score, normalizer=normalizers.l1())


def test_what_reads_positions():
    assert not Rule().reads_positions
    assert not Rule(transform=lambda s, i, j: s, mask=masks.lengths(2)).reads_positions
    assert Rule(mask=masks.valid([True]) | masks.causal()).reads_positions
    assert Rule(transform=lambda s, i, j: s - i, transform_reads_positions=True).reads_positions


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rule(scores.dot), r"Rule\(score=…\) takes.*attn_jax.scores \(call it: dot\(\)"),
        (lambda: Rule(lambda q, k: q @ k), r"Rule\(score=…\).*got function"),
        (lambda: Rule(mask=masks.causal), r"Rule\(mask=…\) takes.*call it: causal\(\)"),
        (lambda: Rule(mask=np.ones((2, 2), bool)), r"Rule\(mask=…\) takes.*attn_jax.masks, got ndarray"),
        (lambda: Rule(mask=None), r"Rule\(mask=…\).*got NoneType"),
        (lambda: Rule(normalizer=jax.nn.softmax), r"Rule\(normalizer=…\).*attn_jax.normalizers"),
        (lambda: Rule(bias=np.ones((2, 2))), r"Rule\(bias=…\) takes a bias, got ndarray: use"),
        (lambda: Rule(transform=3.0), r"Rule\(transform=…\) takes a function.*got float"),
        (lambda: Rule(transform=transforms.soft_cap), r"Rule\(transform=…\).*call it: soft_cap\(…\)"),
        (lambda: Rule(attention="full"), r"attention"),
    ],
)  # fmt: skip
def test_parts_of_another_kind_are_refused(make, says):
    with pytest.raises(TypeError, match=says):
        make()
