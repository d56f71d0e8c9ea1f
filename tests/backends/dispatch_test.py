"""The doors: what may not come in, and what is said of it; which backend is chosen, and why."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attn_jax
from attn_jax import (
    Dropout,
    Positions,
    Rule,
    attend,
    attend_with_lse,
    attention_weights,
    backends,
    explain,
    features,
    masks,
    normalizers,
    scores,
)
from attn_jax.backends.dispatch import BACKENDS
from tests.backends.backends_under_test import UNDER_TEST

Q, K = np.ones((2, 5, 4, 8), np.float32), np.ones((2, 7, 2, 8), np.float32)
V = np.ones((2, 7, 2, 3), np.float32)
CAUSAL = Rule(mask=masks.causal())
DOORS = [attend, attend_with_lse, explain, lambda q, k, v, **more: attention_weights(q, k, **more)]


def array(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


SHAPES = [
    (dict(q=array(5, 8)), r"q must be \*b t h d, with at least 3 axes; got shape \(5, 8\)"),
    (dict(k=array(7, 8)), r"k must be \*b s g d, with at least 3 axes"),
    (dict(k=array(3, 7, 2, 8)), r"q and k to share \*b: q has \(2,\), k has \(3,\)"),
    (dict(k=array(7, 2, 8)), r"q and k to share \*b: q has \(2,\), k has \(\)"),
    (dict(k=array(2, 7, 3, 8)), r"g must divide the query heads h: q has 4 heads, k has 3"),
    (dict(k=array(2, 7, 8, 8)), r"g must divide the query heads h: q has 4 heads, k has 8"),
    (dict(k=array(2, 7, 0, 8)), r"g must divide the query heads h: q has 4 heads, k has 0"),
    (dict(k=array(2, 7, 2, 6)), r"one depth d: q has 8, k has 6"),
    (dict(q=array(2, 5, 4, 0), k=array(2, 7, 2, 0)), r"q must be \*b t h d with a depth d of at least"),
    (dict(rule=CAUSAL), r"t = 5 queries differ from s = 7 keys: say\s+positions=\"end\""),
    (dict(rule=CAUSAL, positions="middle"), r"\"start\", \"end\" or Positions\(q, k\), got 'middle'"),
    (
        dict(rule=CAUSAL, positions=Positions(np.arange(4), np.arange(7))),
        r"Positions\(q\) must be t = \(5,\) or \*b t = \(2, 5\), got shape \(4,\)",
    ),
    (
        dict(rule=CAUSAL, positions=Positions(np.arange(5), np.zeros((3, 7), int))),
        r"Positions\(k\) must be s = \(7,\) or \*b s = \(2, 7\), got shape \(3, 7\)",
    ),
    (dict(rule=Rule(mask=masks.per_head([masks.causal()] * 2)), positions="end"), r"h = 4 heads"),
    (dict(rule=Rule(normalizer=normalizers.softmax([0.0, 1.0]))), r"one per query head, \(4,\)"),
]  # fmt: skip
TYPES = [
    (dict(q=None), r"q must be an array \*b t h d, got NoneType"),
    (dict(k=[[1.0]]), r"k must be an array \*b s g d, got list"),
    (dict(q=array(2, 5, 4, 8, dtype=int)), "q must be of floating point, got int64"),
    (dict(k=array(2, 7, 2, 8, dtype=bool)), "k must be of floating point, got bool"),
    (dict(rule=masks.causal()), r"must be an attn_jax.Rule, got causal: Rule\(mask=causal\(\)\)"),
    (dict(rule=Rule), "must be an attn_jax.Rule, got type"),
    (dict(rule=None), "must be an attn_jax.Rule, got NoneType"),
    (dict(rule=CAUSAL, positions=3), r"\"start\", \"end\" or Positions\(q, k\), got int"),
    (
        dict(rule=CAUSAL, positions=Positions(np.arange(5.0), np.arange(7))),
        r"Positions\(q\) must be integers, got float",
    ),
    (dict(rule=CAUSAL, positions=np.arange(5)), r"or Positions\(q, k\), got ndarray"),
]


@pytest.mark.parametrize("door", DOORS, ids=["attend", "lse", "explain", "weights"])
@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [(w, ValueError, says) for w, says in SHAPES] + [(w, TypeError, says) for w, says in TYPES],
)
def test_what_does_not_fit_is_refused_at_every_door(door, wrong, error, says):
    """Semantics 3 and 7: before anything compiles, naming the axes."""
    with pytest.raises(error, match=says):
        door(**{"q": Q, "k": K, "v": V, **wrong})


@pytest.mark.parametrize("door", DOORS[:3], ids=["attend", "lse", "explain"])
@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (dict(v=array(2, 6, 2, 3)), ValueError, r"k and v to share s: k has 7, v has 6"),
        (dict(v=array(2, 7, 4, 3)), ValueError, r"k and v to share g: k has 2, v has 4"),
        (
            dict(v=array(1, 7, 2, 3)),
            ValueError,
            r"k and v to share \*b: k has \(2,\), v has \(1,\)",
        ),
        (dict(v=None), TypeError, r"v must be an array \*b s g e, got NoneType"),
        (dict(v=array(2, 7, 2, 3, dtype=int)), TypeError, "v must be of floating point, got int64"),
        (dict(dropout=0.1), TypeError, r"dropout must be Dropout\(rate, rng\), got float"),
    ],
)
def test_values_and_dropout_are_refused_at_the_doors_that_take_them(door, wrong, error, says):
    with pytest.raises(error, match=says):
        door(**{"q": Q, "k": K, "v": V, **wrong})


@pytest.mark.parametrize(
    ("backend", "error", "says"),
    [
        ("flash", ValueError, r"unknown backend 'flash': expected one of auto, .*dense"),
        (backends.dense, TypeError, r"a name or a backend, got type \(call it: dense\(\)\)"),
        (None, TypeError, r"a name or a backend, got NoneType"),
        (3, TypeError, r"a name or a backend, got int"),
    ],
)
def test_backends_that_are_none(backend, error, says):
    for door in (attend, attend_with_lse):
        with pytest.raises(error, match=says):
            door(Q, K, V, backend=backend)


@pytest.mark.parametrize("name", ["auto", *UNDER_TEST])
def test_a_string_is_shorthand_for_a_backend(name):
    expected = attend(Q, K, V, backend=backends.dense())
    value = getattr(backends, name)
    for backend in (name, value if isinstance(value, str) else value()):
        np.testing.assert_allclose(attend(Q, K, V, backend=backend), expected, rtol=1e-6)


def test_a_backend_asked_for_by_name_runs_or_raises():
    class never(backends.Backend):
        def refuses(self, problem):
            return f"it never evaluates {problem.axes.t} queries"

    for door in (attend, attend_with_lse):
        with pytest.raises(
            ValueError, match="the never backend refuses: it never evaluates 5 queries"
        ):
            door(Q, K, V, backend=never())
    for name, verdict in explain(Q, K, V, rule=Rule(normalizer=normalizers.sparsemax())).items():
        if not verdict.accepts:
            with pytest.raises(ValueError, match=f"the {name} backend refuses: "):
                attend(Q, K, V, rule=Rule(normalizer=normalizers.sparsemax()), backend=name)


def test_explain_says_what_each_backend_would_do():
    said = explain(Q, K, V)
    assert list(said) == list(BACKENDS)
    assert said["dense"].accepts
    assert "5 × 7 scores" in said["dense"].reason
    lines = str(said).splitlines()
    assert all(line.split()[0] == name for line, name in zip(lines, said, strict=True))
    assert all("accepts: " in line or "refuses: " in line for line in lines)


def test_explaining_evaluates_nothing():
    calls = []

    def fn(q, k):
        calls.append(1)
        return q @ k

    explain(Q, K, V, rule=Rule(scores.pairwise(fn)))
    assert not calls


def test_only_a_softmax_has_a_log_sum_exp():
    with pytest.raises(ValueError, match=r"only a softmax has a log-sum-exp.*sigmoid\(\)"):
        attend_with_lse(Q, K, V, rule=Rule(normalizer=normalizers.sigmoid()))


def test_errors_come_before_compilation():
    for wrong, says in SHAPES[:3]:
        arguments = {"q": Q, "k": K, "v": V, **wrong}
        with pytest.raises(ValueError, match=says):
            jax.eval_shape(attend, *(jnp.asarray(arguments[n]) for n in "qkv"))


def test_a_rule_that_reads_no_positions_needs_none():
    for rule in (Rule(), Rule(mask=masks.lengths([7, 2])), Rule(transform=lambda s, i, j: s / 2)):
        assert attend(Q, K, V, rule=rule).shape == (2, 5, 4, 3)
    square = attend(Q, K[:, :5], V[:, :5], rule=CAUSAL)  # t = s: positions are indices
    np.testing.assert_array_equal(
        square, attend(Q, K[:, :5], V[:, :5], rule=CAUSAL, positions="end")
    )


def test_a_transform_that_reads_positions_needs_them():
    rule = Rule(transform=lambda s, i, j: s - abs(i - j), transform_reads_positions=True)
    with pytest.raises(ValueError, match="the rule reads positions"):
        attend(Q, K, V, rule=rule)
    assert attend(Q, K, V, rule=rule, positions="start").shape == (2, 5, 4, 3)


def test_keys_prepared_by_another_rule_are_refused():
    prepared = Rule(scores.dot()).prepare(K)
    with pytest.raises(
        ValueError, match=r"prepared by scores.dot, the rule scores with scaled_dot\(\)"
    ):
        attend(Q, prepared, V)
    with pytest.raises(ValueError, match="k and v to share s: k has 7, v has 6"):
        attend(Q, prepared, V[:, :6], rule=Rule(scores.dot()))
    with pytest.raises(ValueError, match="one depth d: q has 8, k has 6"):
        attend(Q, Rule(scores.dot()).prepare(K[..., :6]), V, rule=Rule(scores.dot()))
    with pytest.raises(TypeError, match="q must be an array"):
        attend(prepared, prepared, V, rule=Rule(scores.dot()))


def test_scores_of_another_shape_are_refused():
    class forgets_heads(scores.Score):
        def pair(self, q, k):
            return scores.dot().pair(q, k)[:, 0]

    for rule in (
        Rule(forgets_heads()),
        Rule(transform=lambda s, i, j: s.sum(-1)),
    ):
        with pytest.raises(ValueError, match=r"must give \*b h t s = \(2, 4, 5, 7\), got"):
            attend(Q, K, V, rule=rule, backend="dense")


def test_doors_are_compiled_with_rules_and_positions_as_arguments():
    positions = Positions(jnp.arange(5), jnp.arange(7))
    compiled = jax.jit(functools.partial(attend, backend="dense"))
    y = compiled(Q, K, V, rule=CAUSAL, positions=positions, dropout=Dropout(0.5, jax.random.key(0)))
    assert y.shape == (2, 5, 4, 3)
    assert compiled(Q, K, V, rule=CAUSAL, positions=positions).shape == y.shape


def test_the_public_names_are_there():
    for name in attn_jax.__all__:
        assert getattr(attn_jax, name) is not None
    for name in backends.__all__:
        assert getattr(backends, name) is not None


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("backend", ["dense", "blockwise", "linear", "fused"])
def test_programs_are_lowered_for_accelerators_forward_and_backward(backend, platform):
    rule = Rule(mask=masks.causal())
    if backend == "linear":
        rule = Rule(scores.kernel(features.elu_plus_one()), normalizer=normalizers.l1())
    x = jnp.zeros((2, 600, 2, 64), jnp.bfloat16)

    def both_ways(q, k, v, rule):
        y, pull = jax.vjp(lambda *x: attend(*x, rule=rule, backend=backend), q, k, v)
        return y, pull(y)

    traced = jax.jit(both_ways).trace(x, x, x, rule)
    assert "func.func public @main" in traced.lower(lowering_platforms=(platform,)).as_text()
