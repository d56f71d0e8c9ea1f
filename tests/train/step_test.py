import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attn_jax.train.checkpoints import Checkpoints
from attn_jax.train.losses import cross_entropy
from attn_jax.train.retention import Retention
from attn_jax.train.sharding import pad_rows
from attn_jax.train.state import State
from attn_jax.train.step import example_keys, make_evaluate, make_step, means


@pytest.fixture(scope="module")
def sgd_step(tiny):
    return make_step(tiny.loss, optax.sgd(1.0))


@pytest.fixture(scope="module")
def adam_step(tiny):
    return make_step(tiny.loss, tiny.optimizer())


@pytest.fixture(scope="module")
def skipping_step(tiny):
    return make_step(tiny.spoilt_loss, tiny.optimizer(), skip=2, ema_decay=0.15)


def sgd_state(tiny, **kwargs):
    return State.create(tiny.parameters(), optax.sgd(1.0), jax.random.key(5), **kwargs)


def gradient_of(step, state, batch):
    """What one step of gradient descent at rate 1 subtracts."""
    after, metrics = step(step.place(state), batch)
    return jax.tree.map(jnp.subtract, state.params, after.params), jax.device_get(metrics)


def test_the_gradient_is_of_the_sum_over_the_number_of_real_tokens(tiny, sgd_step):
    batch, state = tiny.batch_of(range(8)), sgd_state(tiny)
    rngs = example_keys(state.rng, state.step, jnp.asarray(batch["index"]))

    def mean(params):
        sums = tiny.loss(params, batch, rngs)
        return sums["loss"] / np.count_nonzero(batch["labels"])

    expected = jax.jit(jax.grad(mean))(state.params)
    gradient, metrics = gradient_of(sgd_step, state, batch)
    chex.assert_trees_all_close(gradient, expected, atol=1e-6)
    np.testing.assert_allclose(metrics["gradient_norm"], optax.tree.norm(expected), rtol=1e-5)
    assert metrics["sums"]["count"] == np.count_nonzero(batch["labels"])


def test_accumulation_changes_neither_gradients_nor_draws(tiny, sgd_step):  # T11
    batch, state = tiny.batch_of(range(8)), sgd_state(tiny)  # rows of unequal lengths
    assert len({np.count_nonzero(row) for row in batch["labels"]}) > 1
    whole, whole_metrics = gradient_of(sgd_step, state, batch)
    by_one, metrics = gradient_of(make_step(tiny.loss, optax.sgd(1.0), accumulate=8), state, batch)
    chex.assert_trees_all_close(by_one, whole, atol=1e-6)
    chex.assert_trees_all_close(metrics, whole_metrics, rtol=1e-5)


def test_padding_rows_and_the_order_of_rows_change_nothing(tiny, sgd_step):
    state = sgd_state(tiny)
    for batch, other in (
        (tiny.batch_of(range(7)), pad_rows(tiny.batch_of(range(7)), 8)),
        (tiny.batch_of(range(8)), tiny.batch_of([3, 1, 2, 7, 5, 6, 0, 4])),
    ):
        expected, _ = gradient_of(sgd_step, state, batch)
        gradient, _ = gradient_of(sgd_step, state, other)
        chex.assert_trees_all_close(gradient, expected, atol=1e-6)


def test_rows_with_four_and_one_real_tokens_weigh_by_their_tokens():  # T10, one device
    logits = jax.random.normal(jax.random.key(0), (2, 4, 5))
    labels = np.array([[1, 2, 3, 4], [2, 0, 0, 0]], np.int32)

    def loss(params, batch, rngs):
        return cross_entropy(params + batch["logits"], batch["labels"], smoothing=0.1)

    batch = {"logits": np.asarray(logits), "labels": labels, "index": np.array([0, 1], np.int32)}
    state = State.create(jnp.zeros(5), optax.sgd(1.0), jax.random.key(0))
    both = jax.grad(lambda p: loss(p, batch, None)["loss"])(jnp.zeros(5)) / 5
    step = make_step(loss, optax.sgd(1.0), accumulate=2)
    gradient, _ = gradient_of(step, state, batch)
    chex.assert_trees_all_close(gradient, both, atol=1e-6)


def test_dropout_draws_differ_between_steps_and_examples(tiny):
    keys = [
        jax.random.key_data(example_keys(jax.random.key(0), jnp.int32(n), jnp.arange(-1, 3)))
        for n in range(3)
    ]
    assert len({tuple(key) for keys_of_step in keys for key in np.asarray(keys_of_step)}) == 12


def test_one_compilation_per_shape(tiny, adam_step):
    state, before = adam_step.place(tiny.state()), adam_step.update._cache_size()
    for rows in (5, 6, 5, 6, 5):
        state, _ = adam_step(state, tiny.batch_of(range(rows)))
    assert adam_step.update._cache_size() == before + 2


def test_the_state_is_donated_and_the_callers_copy_is_not(tiny, adam_step):
    mine = tiny.state()
    placed = adam_step.place(mine)
    adam_step(placed, tiny.batch_of(range(5)))
    assert placed.params["embedding"].is_deleted()
    assert not mine.params["embedding"].is_deleted()


def test_what_is_not_finite_changes_nothing_and_more_than_may_be_skipped_freezes(
    tiny, skipping_step
):
    step, skip = skipping_step, skipping_step.skip
    good, bad = (tiny.batches(spoil=spoil) for spoil in ((), range(9)))
    state, _ = step(step.place(tiny.state(ema=True)), next(good))
    kept = jax.tree.map(np.asarray, (state.params, state.opt_state, state.ema))
    for n in range(skip + 1):
        state, metrics = step(state, next(bad))
        assert not metrics["applied"]
        assert int(state.failures) == n + 1
    frozen_at = 1 + skip  # the steps that were skipped count, the one that was not may not
    assert int(state.step) == frozen_at
    state, metrics = step(state, next(good))
    assert not metrics["applied"]
    assert int(state.step) == frozen_at
    chex.assert_trees_all_equal((state.params, state.opt_state, state.ema), kept)


def test_a_good_step_forgives_the_bad_ones_before(tiny, skipping_step):
    batches = tiny.batches(spoil=[0, 1, 3, 4, 6])
    state = skipping_step.place(tiny.state(ema=True))
    applied = []
    for _ in range(8):
        state, metrics = skipping_step(state, next(batches))
        applied.append(int(metrics["applied"]))
    assert applied == [0, 0, 1, 0, 0, 1, 0, 1]
    assert int(state.step) == 8


def test_ema_follows_its_formula(tiny, skipping_step):
    state, batches = skipping_step.place(tiny.state(ema=True)), tiny.batches()
    expected = np.asarray(state.ema["embedding"], np.float64)
    for n in range(3):
        state, _ = skipping_step(state, next(batches))
        decay = min(0.15, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * np.asarray(state.params["embedding"])
    np.testing.assert_allclose(state.ema["embedding"], expected, rtol=1e-5)


def test_the_learning_rate_reported_is_the_one_used(tiny, adam_step):
    state = adam_step.place(tiny.state())
    for expected in tiny.PEAK * np.array([0.25, 0.5]):
        state, metrics = adam_step(state, tiny.batch_of(range(5)))
        np.testing.assert_allclose(metrics["learning_rate"], expected, rtol=1e-6)


def test_evaluation_is_the_mean_over_all_tokens_whatever_the_batches(tiny):
    evaluate, params = make_evaluate(tiny.loss), tiny.parameters()
    whole = evaluate(params, [tiny.batch_of(range(6))])
    parts = evaluate(params, [tiny.batch_of([0]), tiny.batch_of([1, 2, 3, 4, 5])])
    assert whole == pytest.approx(parts, rel=1e-5)
    assert list(whole) == ["loss", "accuracy", "nll"]
    with pytest.raises(ValueError, match="at least one batch"):
        evaluate(params, [])


def test_means_of_nothing_are_zero():
    assert means({"loss": 0.0, "count": 0}) == {"loss": 0.0}


@pytest.mark.parametrize("wrong", [{"accumulate": 0}, {"skip": -1}, {"ema_decay": 1.0}])
def test_what_is_out_of_range_is_refused(tiny, wrong):
    with pytest.raises(ValueError, match="expected accumulate >= 1"):
        make_step(tiny.loss, tiny.optimizer(), **wrong)


@pytest.mark.slow
def test_statistics_go_from_batch_to_batch_and_no_gradient_moves_them(tmp_path):
    """A running mean of the inputs, of which the loss knows what the evaluation subtracts."""

    def loss(params, batch, rngs, statistics):
        mean = jnp.mean(batch["x"]) if rngs is not None else statistics["mean"]
        error = (batch["x"] - mean - params["w"]) ** 2
        count = jnp.asarray(batch["x"].size, jnp.int32)
        after = {"mean": 0.5 * statistics["mean"] + 0.5 * mean}
        return {"loss": jnp.sum(error), "count": count}, after

    def batch(*x):
        return {"x": np.array(x, np.float32), "index": np.arange(len(x), dtype=np.int32)}

    state = State.create(
        {"w": jnp.zeros(())},
        optax.sgd(0.1),
        jax.random.key(0),
        statistics={"mean": jnp.zeros(())},
    )
    step = make_step(loss, optax.sgd(0.1), skip=1)
    state, _ = step(step.place(state), batch(2.0, 6.0))
    assert float(state.statistics["mean"]) == 2.0
    assert float(state.params["w"]) == 0.0
    state, metrics = step(state, batch(np.nan, 1.0))
    assert not metrics["applied"]
    assert float(state.statistics["mean"]) == 2.0  # of the last good state
    evaluate = make_evaluate(loss)
    found = evaluate(state.params, [batch(2.0, 4.0)], state.statistics)
    assert found["loss"] == pytest.approx(2.0)

    in_two = make_step(loss, optax.sgd(0.1), accumulate=2, skip=1)
    after, _ = in_two(in_two.place(state), batch(8.0, 4.0, 8.0, 4.0))  # 8 and 8, then 4 and 4
    assert float(after.statistics["mean"]) == 0.5 * (0.5 * 2 + 0.5 * 8) + 0.5 * 4
    with Checkpoints(tmp_path, Retention()) as checkpoints:
        checkpoints.save(after, {})
        checkpoints.wait()
        read, _ = checkpoints.newest(state)
    chex.assert_trees_all_equal(read.statistics, after.statistics)
