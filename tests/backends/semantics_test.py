"""What an answer means, the same on every backend: the seven semantics, gradients included."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as drawn
from hypothesis import strategies as st

from attn_jax import (
    Dropout,
    Positions,
    Rule,
    attend,
    attend_with_lse,
    attention_weights,
    biases,
    masks,
    normalizers,
    scores,
)
from tests.backends import formula
from tests.backends.backends_under_test import UNDER_TEST, only_where_accepted, outcome
from tests.functional.mask_expressions import expressions, settings_of

T, H, D = 6, 2, 4
RNG = np.random.default_rng(0)
Q, K, V = jnp.asarray(RNG.normal(size=(3, 2, T, H, D)), jnp.float32)
INF = np.inf


@pytest.fixture(
    params=[pytest.param(x, marks=[pytest.mark.slow] * (x != "dense")) for x in UNDER_TEST]
)
def backend(request):
    """Each backend; those that take longer to compile, with the slow tests."""
    return request.param


# Of what the tests of masks, of dropout and of dense itself say fast, once.
in_full = pytest.mark.slow


def close(actual, expected, tolerance=1e-5):
    chex.assert_trees_all_close(actual, expected, rtol=tolerance, atol=tolerance)


def zero(*arrays):
    return all(bool((x == 0).all()) for x in arrays)


def finite(*arrays):
    return all(bool(jnp.isfinite(x).all()) for x in arrays)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16])
def test_a_query_that_sees_no_key_returns_zero_and_moves_nothing(backend, dtype):
    """A1, A2."""
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    rule = Rule(mask=masks.causal(-2))  # rows 0 and 1 see no key
    y, lse, gradients = outcome(q, k, v, rule, backend=backend)
    dq, dk, dv = gradients
    assert zero(y[:, :2], dq[:, :2], dk[:, -2:], dv[:, -2:])
    assert (lse[..., :2] == -INF).all()
    assert finite(y, *gradients)
    without = outcome(q.at[:, :2].set(1e3), k, v, rule, backend=backend)
    chex.assert_trees_all_equal(without[2][1:], (dk, dv))


def test_one_row_of_three(backend):
    """A2: the third query sees nothing."""
    allowed = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]], bool)
    q, k, v = (x[:, :3] for x in (Q, K, V))
    y, _, gradients = outcome(q, k, v, Rule(mask=masks.explicit(allowed)), backend=backend)
    assert zero(y[:, 2], gradients[0][:, 2], gradients[1][:, 2], gradients[2][:, 2])
    close(y, formula.attention(q, k, v, allowed=allowed)[0])


def test_scores_of_minus_infinity_are_as_if_unseen(backend):
    bias = np.zeros((T, T), np.float32)
    bias[1], bias[3, 2:] = -INF, -INF  # row 1 sees nothing but minus infinity
    for mask in (masks.everything(), masks.causal()):
        y, lse, gradients = outcome(
            Q, K, V, Rule(bias=biases.dense(bias), mask=mask), backend=backend
        )
        hidden = Rule(mask=masks.explicit(bias == 0) & mask)
        expected = outcome(Q, K, V, hidden, backend=backend)
        close((y, lse, gradients), expected)
        assert zero(y[:, 1], gradients[0][:, 1])

    def summed(bias):
        y, lse = attend_with_lse(
            Q, K, V, rule=Rule(bias=biases.dense(bias)), backend=UNDER_TEST[backend]
        )
        return y.sum() + jnp.where(jnp.isfinite(lse), lse, 0).sum()

    slope = jax.jit(jax.grad(summed))(jnp.asarray(bias))
    assert finite(slope)
    assert zero(slope[bias == -INF])


def test_a_row_that_sees_nothing_has_its_sink(backend):
    """A20's edge: its lse is the sink, and differentiates to it."""
    rule = Rule(mask=masks.causal(-1), normalizer=normalizers.softmax([0.5, -1.0]))
    y, lse, gradients = outcome(Q, K, V, rule, backend=backend)
    assert zero(y[:, 0])
    assert lse[:, :, 0].tolist() == [[0.5, -1.0]] * 2
    assert finite(y, lse, *gradients)

    def of_first_row(sink):
        made = Rule(mask=masks.causal(-1), normalizer=normalizers.softmax(sink))
        return attend_with_lse(Q, K, V, rule=made, backend=UNDER_TEST[backend])[1][0, :, 0]

    close(jax.jit(jax.jacobian(of_first_row))(jnp.array([0.5, -1.0])), jnp.eye(2))


@pytest.mark.parametrize("poison", [np.nan, INF])
def test_what_takes_part_in_nothing_may_hold_anything(backend, poison):
    """Keys 4 and 5 of row 0 are padding; queries 0 and 1 see nothing."""
    rule = Rule(mask=masks.lengths([4, 6]) & masks.explicit(np.arange(T)[:, None] >= 2))
    clean = outcome(Q, K, V, rule, backend=backend)
    q = Q.at[:, :2].set(poison)
    k, v = (x.at[0, 4:].set(poison) for x in (K, V))
    poisoned = outcome(q, k, v, rule, backend=backend)
    chex.assert_trees_all_equal(poisoned, clean)
    assert zero(clean[2][0][:, :2], clean[2][1][0, 4:], clean[2][2][0, 4:])


def test_a_key_is_hidden_when_no_head_of_its_group_sees_it(backend):
    """Four query heads, two key heads: key 1 is hidden from heads 0 and 1, and seen by head 3."""
    q = jnp.concatenate([Q, Q + 1], axis=2)
    allowed = np.ones((4, T, T), bool)
    allowed[:2, :, 1] = allowed[2, :, 1] = False
    rule = Rule(mask=masks.explicit(allowed))
    clean = outcome(q, K, V, rule, backend=backend)
    poisoned = outcome(q, K.at[:, 1, 0].set(jnp.nan), V.at[:, 1, 0].set(INF), rule, backend=backend)
    chex.assert_trees_all_equal(poisoned, clean)
    close(clean[:2], formula.attention(q, K, V, allowed=allowed)[:2])
    assert not finite(outcome(q, K.at[:, 1, 1].set(jnp.nan), V, rule, backend=backend)[0][:, :, 3])


@pytest.mark.parametrize(
    "fn",
    [
        lambda q, k, *, w: -jnp.linalg.norm(w @ (q - k)),
        lambda q, k, *, w: (w @ q) @ k / (jnp.linalg.norm(w @ q) * jnp.linalg.norm(k)),
    ],
    ids=["distance", "cosine"],
)
def test_a_score_that_is_singular_somewhere_is_not_evaluated_there_for_what_is_hidden(backend, fn):
    """What stands in for padding is neither 0 nor the same in queries and keys."""
    only_where_accepted(backend, Q, K, V, rule=Rule(scores.pairwise(fn, w=jnp.eye(D))))

    def total(q, k, v, w):
        rule = Rule(scores.pairwise(fn, w=w), mask=masks.segments([0, 0, 0, 1, -1, -1]))
        return (attend(q, k, v, rule=rule, backend=UNDER_TEST[backend]) ** 2).sum()

    def alone(q, k, v, w):
        rule = Rule(scores.pairwise(fn, w=w), mask=masks.segments([0, 0, 0, 1]))
        return (attend(q, k, v, rule=rule, backend="dense") ** 2).sum()

    slopes, expected = (
        jax.jit(jax.grad(f, (0, 1, 2, 3)))(*(x[:, :n] for x in (Q, K, V)), jnp.eye(D))
        for f, n in ((total, T), (alone, 4))
    )
    close([x[:, :4] for x in slopes[:3]] + [slopes[3]], list(expected))


def test_queries_without_keys_and_keys_without_queries(backend):
    y, lse, gradients = outcome(Q, K[:, :0], V[:, :0], Rule(), backend=backend)
    assert y.shape == Q.shape
    assert zero(y, gradients[0])
    assert (lse == -INF).all()
    sink = Rule(normalizer=normalizers.softmax(0.25))
    assert (outcome(Q, K[:, :0], V[:, :0], sink, backend=backend)[1] == 0.25).all()
    y, lse, gradients = outcome(Q[:, :0], K, V, Rule(), backend=backend)
    assert (y.shape, lse.shape) == ((2, 0, H, D), (2, H, 0))
    assert zero(gradients[1], gradients[2])
    masked = Rule(mask=masks.causal() & masks.valid(np.ones(0, bool)))
    assert zero(outcome(Q, K[:, :0], V[:, :0], masked, backend=backend, positions="end")[0])


def test_causal_and_left_padding_in_bfloat16(backend):
    """A3: booleans combine; nothing is filled in twice."""
    q, k, v = (x[:1, :4].astype(jnp.bfloat16) for x in (Q, K, V))
    rule = Rule(mask=masks.causal() & masks.valid([0, 0, 1, 1]))
    y, _, gradients = outcome(q, k, v, rule, backend=backend)
    assert finite(y, *gradients)
    assert zero(y[:, :2])
    close(y[:, 2], v[:, 2])


@in_full
def test_a_query_that_sees_itself_alone_copies(backend):
    """A4."""
    close(outcome(Q, K, V, Rule(mask=masks.window(0, 0)), backend=backend)[0], V)


@in_full
@pytest.mark.parametrize("mask", [masks.causal(), masks.window(1, 0)])
def test_a_mask_is_what_is_drawn(backend, mask):
    """A5, A9, A15: lengths that no tile divides; a window of two rows counts 1, 2, 2, 2."""
    y, lse, _ = outcome(Q, K, V, Rule(mask=mask), backend=backend)
    close((y, lse), formula.attention(Q, K, V, allowed=np.asarray(mask.dense(T, T)))[:2])


def test_any_mask_under_any_positions(backend):
    """Random expressions of every leaf, against the formula on their entries."""
    q = Q[:, :5]
    k, v = (jnp.concatenate([x, x[:, :1] + 1], axis=1)[:, :, :1] for x in (K, V))

    @given(st.data())
    @drawn(max_examples=15 if backend == "dense" else 30)
    def check(data):
        setting = data.draw(settings_of(st.just((5, 7))))
        mask, entries = data.draw(expressions(setting))
        where = setting.positions or "start"
        y, lse = attend_with_lse(
            q, k, v, rule=Rule(mask=mask), positions=where, backend=UNDER_TEST[backend]
        )
        close((y, lse), formula.attention(q, k, v, allowed=entries)[:2])

    check()


def test_the_future_does_not_move_the_past_dropout_or_not(backend):
    """A6: ∂out₀/∂v₂ = 0, with dropout and with weights asked for."""
    for dropout in (None, Dropout(0.3, jax.random.key(0))):
        only_where_accepted(backend, Q, K, V, dropout=dropout)

        def first(v, dropout=dropout):
            rule = Rule(mask=masks.causal())
            return attend(Q, K, v, rule=rule, dropout=dropout, backend=UNDER_TEST[backend])[:, 0]

        moved = jax.jit(lambda v: jax.vjp(first, v)[1](jnp.ones_like(v[:, 0]))[0])(V)
        assert zero(moved[:, 1:])
    assert zero(attention_weights(Q, K, rule=Rule(mask=masks.causal()))[..., 0, 1:])


def test_decoding_one_token_at_a_time_is_the_full_pass(backend):
    """A7, A22: the mask and bias of training serve cached decoding unchanged."""
    rule = Rule(bias=biases.alibi(H), mask=masks.window(3, 1) & masks.causal())

    @jax.jit
    def by_token(q, k, v):
        def step(_, n):
            here = Positions(q=n[None], k=np.arange(T))
            q_n = jax.lax.dynamic_slice_in_dim(q, n, 1, axis=1)
            filled = masks.lengths(n + 1)
            seen = jnp.arange(T)[:, None, None] <= n
            k_n, v_n = jnp.where(seen, k, jnp.nan), jnp.where(seen, v, jnp.nan)  # never written
            return None, attend(
                q_n, k_n, v_n, rule=rule & filled, positions=here, backend=UNDER_TEST[backend]
            )[:, 0]

        return jax.lax.scan(step, None, jnp.arange(T))[1].swapaxes(0, 1)

    full = outcome(Q, K, V, rule, backend=backend)[0]
    close(by_token(Q, K, V), full)
    close(outcome(Q[:, -1:], K, V, rule, backend=backend, positions="end")[0], full[:, -1:])


def test_more_keys_than_queries(backend):
    """A8."""
    q = Q[:, :2]
    for positions, rows in (("end", np.tri(2, T, T - 2)), ("start", np.tri(2, T))):
        y = outcome(q, K, V, Rule(mask=masks.causal()), backend=backend, positions=positions)[0]
        close(y, formula.attention(q, K, V, allowed=rows > 0)[0])
    with pytest.raises(ValueError, match="say positions"):
        attend(q, K, V, rule=Rule(mask=masks.causal()), backend=UNDER_TEST[backend])


def test_positions_in_any_order_of_each_row_and_traced(backend):
    """Keys and queries that are shuffled with their positions give shuffled answers."""
    order_q, order_k = (np.stack([RNG.permutation(T) for _ in range(2)]) for _ in range(2))
    rule = Rule(bias=biases.alibi(H), mask=masks.window(3, 1) | masks.stride(3))

    @jax.jit
    def run(q, k, v, positions):
        return attend(q, k, v, rule=rule, positions=positions, backend=UNDER_TEST[backend])

    def shuffled(x, order):
        return jnp.take_along_axis(x, order[..., None, None], axis=1)

    y = run(
        shuffled(Q, order_q),
        shuffled(K, order_k),
        shuffled(V, order_k),
        Positions(order_q, order_k),
    )
    close(y, shuffled(outcome(Q, K, V, rule, backend=backend)[0], order_q))


@in_full
def test_a_key_past_the_length_moves_nothing(backend):
    """A10: of 4 keys 2 are real; of none, nothing is seen."""
    k, v = K[:, :4], V[:, :4]
    for length in (2, 0):
        rule = Rule(mask=masks.lengths(length))
        y, _, gradients = outcome(Q, k, v, rule, backend=backend)
        again = outcome(Q, k.at[:, 3].add(7), v.at[:, 3].add(7), rule, backend=backend)
        chex.assert_trees_all_equal((y, gradients), (again[0], again[2]))
        assert zero(gradients[1][:, length:], gradients[2][:, length:])
    assert zero(y)


@in_full
def test_a_mask_over_the_keys_of_each_row(backend):
    """A11: b 1 1 s."""
    allowed = np.array([[1, 1, 0, 1, 0, 1], [0, 1, 1, 1, 1, 0]], bool)[:, None, None]
    y, lse, _ = outcome(Q, K, V, Rule(mask=masks.explicit(allowed)), backend=backend)
    close((y, lse), formula.attention(Q, K, V, allowed=allowed)[:2])
    close(outcome(Q, K, V, Rule(mask=masks.valid(allowed[:, 0, 0])), backend=backend)[0], y)


@in_full
def test_documents_are_isolated(backend):
    """A21."""
    ids = np.array([0, 0, 0, 1, 1, -1])
    rule = Rule(mask=masks.segments(ids) & masks.valid(np.ones(T, bool)) & masks.causal())
    y, _, gradients = outcome(Q, K, V, rule, backend=backend)
    assert zero(y[:, 5], gradients[1][:, 5], gradients[2][:, 5])
    for part in (slice(0, 3), slice(3, 5)):
        alone = formula.attention(
            *(x[:, part] for x in (Q, K, V)), allowed=np.tri(part.stop - part.start) > 0
        )
        close(y[:, part], alone[0])


@in_full
def test_a_prefix_is_seen_by_all(backend):
    """A32."""
    rule = Rule(mask=masks.causal() | masks.prefix(np.array([2, 4])))
    allowed = np.tri(T)[None, None] + (np.arange(T) < np.array([2, 4])[:, None, None, None]) > 0
    close(
        outcome(Q, K, V, rule, backend=backend)[0], formula.attention(Q, K, V, allowed=allowed)[0]
    )


def test_the_log_sum_exp_is_natural_and_has_the_slope_of_scores(backend):
    """A20: ∂lse/∂q = scale · Σ p k."""
    y, lse, _ = outcome(Q.astype(jnp.bfloat16), K.astype(jnp.bfloat16), V, Rule(), backend=backend)
    assert (y.dtype, lse.dtype) == (V.dtype, jnp.float32)
    _, expected, weights = formula.attention(Q, K, V)
    close(outcome(Q, K, V, Rule(), backend=backend)[1], expected)

    def summed(q):
        return attend_with_lse(q, K, V, backend=UNDER_TEST[backend])[1].sum()

    close(jax.jit(jax.grad(summed))(Q), np.einsum("bhts,bshd->bthd", weights, K) / np.sqrt(D))


@in_full
def test_query_heads_share_key_heads_in_order(backend):
    """A26."""
    q = jnp.concatenate([Q, Q - 1], axis=2)
    y, lse, gradients = outcome(q, K, V, Rule(), backend=backend)
    repeated = outcome(q, *(jnp.repeat(x, 2, axis=2) for x in (K, V)), Rule(), backend=backend)
    close((y, lse, gradients[0]), (*repeated[:2], repeated[2][0]))
    for slope, of_repeated in zip(gradients[1:], repeated[2][1:], strict=True):
        close(slope, of_repeated.reshape(2, T, H, 2, D).sum(3))


def test_weights_sum_to_one_and_are_what_multiplies_the_values(backend):
    """A19, A18: before dropout; a rate of 0 is none."""
    rule = Rule(mask=masks.causal())
    weights = attention_weights(Q, K, rule=rule)
    close(weights.sum(-1), jnp.ones((2, H, T)))
    y = outcome(Q, K, V, rule, backend=backend)[0]
    close(jnp.einsum("bhts,bshd->bthd", weights, V), y)
    none = Dropout(0.0, jax.random.key(0))
    chex.assert_trees_all_equal(outcome(Q, K, V, rule, backend=backend, dropout=none)[0], y)


@in_full
def test_dropout_draws_by_index_whatever_the_backend(backend):
    """A17, and the same forward and backward."""
    problem = dict(dropout=Dropout(0.4, jax.random.key(3)))
    only_where_accepted(backend, Q, K, V, **problem)
    rule = Rule(mask=masks.window(3, 1))
    y, lse, gradients = outcome(Q, K, V, rule, backend=backend, **problem)
    close((y, lse, gradients), outcome(Q, K, V, rule, backend="dense", **problem))
    close(lse, outcome(Q, K, V, rule, backend=backend)[1])
    assert jnp.abs(y - outcome(Q, K, V, rule, backend=backend)[0]).max() > 0.1


@in_full
def test_two_identical_batch_axes_or_one_flat(backend):
    """Rows are independent; dropout counts them flat."""
    q, k, v = (jnp.stack([x, x[::-1]]) for x in (Q, K, V))
    flat = (x.reshape(4, T, H, D) for x in (q, k, v))
    dropout = Dropout(0.2, jax.random.key(4))
    only_where_accepted(backend, Q, K, V, dropout=dropout)
    rule = Rule(mask=masks.causal())
    y, lse, _ = outcome(q, k, v, rule, backend=backend, dropout=dropout)
    expected = outcome(*flat, rule, backend=backend, dropout=dropout)
    close((y.reshape(expected[0].shape), lse.reshape(expected[1].shape)), expected[:2])


def test_a_rule_with_every_part(backend):
    """The mechanism as a value: the same on every backend, differentiated in its leaves."""
    bias = jnp.asarray(RNG.normal(size=(H, 1, T)), jnp.float32)
    rule = Rule(
        scores.pairwise(lambda q, k, *, w: -w * jnp.square(q - k).sum(), w=0.4),
        bias=biases.dense(bias),
        transform=lambda s, i, j: 2 * jnp.tanh(s / 2) - 0.1 * abs(i - j),
        mask=masks.per_head([masks.causal(), masks.window(2, 2)]) & masks.lengths([6, 4]),
        normalizer=normalizers.softmax([0.3, -0.3]),
        transform_reads_positions=True,
    )
    only_where_accepted(backend, Q, K, V, rule=rule)

    def summed(rule, backend):
        y, lse = attend_with_lse(Q, K, V, rule=rule, backend=UNDER_TEST[backend])
        return (y**2).sum() + lse.sum()

    graded = jax.jit(jax.value_and_grad(summed, allow_int=True), static_argnums=1)
    (value, slopes), (expected, expected_slopes) = (graded(rule, b) for b in (backend, "dense"))
    close(value, expected)
    for slope, other in zip(*map(jax.tree.leaves, (slopes, expected_slopes)), strict=True):
        assert slope.dtype == other.dtype
        if slope.dtype != jax.dtypes.float0:
            close(slope, other, 1e-4)
            assert jnp.abs(slope).max() > 0
