import contextlib
import dataclasses
import logging
import re
import resource
import shutil

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attn_jax.train.checkpoints import Checkpoints, NotSaved, Retention, Unreadable
from attn_jax.train.identity import Mismatch
from attn_jax.train.state import State


def state_at(step, *, width=3):
    params = {
        "w": jnp.arange(width * 40.0).reshape(width, 40) + step,
        "b": jnp.ones(2, jnp.bfloat16),
    }
    state = State.create(params, optax.adam(0.1), jax.random.key(step), ema=True)
    return dataclasses.replace(state, step=jnp.int32(step))


def equal(one, other):
    chex.assert_trees_all_equal(
        *(dataclasses.replace(s, rng=jax.random.key_data(s.rng)) for s in (one, other))
    )


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A directory with checkpoints 10, 20 and 30."""
    directory = tmp_path_factory.mktemp("three") / "checkpoints"
    with Checkpoints(directory, Retention(latest=3)) as checkpoints:
        for step in (10, 20, 30):
            checkpoints.save(state_at(step), {"position": step})
    return directory


@pytest.fixture
def copied(three, tmp_path):
    return shutil.copytree(three, tmp_path / "checkpoints")


def test_what_is_read_is_what_was_written_adam_and_keys_included(three):  # T2
    gradients = {"w": jnp.ones((3, 40)), "b": jnp.ones(2, jnp.bfloat16)}
    state = state_at(30)
    with Checkpoints(three) as checkpoints:
        read, record = checkpoints.newest(jax.tree.map(jnp.zeros_like, state))
    equal(read, state)
    assert record == {"position": 30}
    chex.assert_trees_all_equal(
        optax.adam(0.1).update(gradients, read.opt_state, read.params),
        optax.adam(0.1).update(gradients, state.opt_state, state.params),
    )


def test_a_state_may_be_donated_right_after_its_save_began(tmp_path):
    state, expected = state_at(1), state_at(1)
    add_one = jax.jit(
        lambda s: dataclasses.replace(s, params=jax.tree.map(lambda x: x + 1, s.params)),
        donate_argnums=0,
    )
    moved = add_one(state_at(1))
    with Checkpoints(tmp_path, Retention()) as checkpoints:
        checkpoints.save(state, {})
        for _ in range(3):
            state = add_one(state)
        checkpoints.wait()
        equal(checkpoints.restore(1, moved)[0], expected)


def test_the_newest_and_the_best_live(tmp_path):  # T5
    scores = {}
    with Checkpoints(tmp_path, Retention(latest=1, best=2)) as checkpoints:
        for step, bleu in ((1, 3.0), (2, 9.0), (3, 5.0), (4, 4.0)):
            scores[step] = bleu
            checkpoints.save(state_at(step), {}, scores=scores)
        checkpoints.wait()
        assert checkpoints.steps() == [2, 3, 4]
        assert checkpoints.best_step() == 2


def test_reading_disturbs_nothing_that_is_being_written(three, copied):
    unfinished = copied / "40.orbax-checkpoint-tmp"
    unfinished.mkdir()
    before = sorted(copied.rglob("*"))
    with Checkpoints(copied) as reader:
        assert reader.newest(state_at(0))[1] == {"position": 30}
        with pytest.raises(ValueError, match="expected a retention"):
            reader.save(state_at(50), {})
    assert sorted(copied.rglob("*")) == before
    with Checkpoints(copied, Retention(latest=3)) as writer:
        writer.save(state_at(40), {})
    assert not unfinished.exists()


@pytest.mark.parametrize(("higher", "best"), [(True, 2), (False, 1)])
def test_best_moves_the_declared_way(tmp_path, higher, best):  # T9
    retention = Retention(latest=1, best=1, higher_is_better=higher)
    scores = {1: 3.0, 2: 9.0, 3: 5.0}
    with Checkpoints(tmp_path, retention) as checkpoints:
        for step in scores:
            checkpoints.save(state_at(step), {}, scores={s: scores[s] for s in range(1, step + 1)})
        checkpoints.wait()
        assert checkpoints.steps() == [best, 3]
    with Checkpoints(tmp_path) as reader:  # which is not told the way
        assert reader.best_step() == best


def flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 8]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [lambda c: c[: len(c) // 2], lambda c: b"", lambda c: bytes(len(c)), flip],
    ids=["cut", "empty", "zeros", "one bit"],
)
@pytest.mark.parametrize("file", ["arrays", "record"])
def test_a_broken_newest_checkpoint_is_reported_and_the_one_before_used(copied, damage, file):
    files = [path for path in (copied / "30").rglob("*") if path.is_file()]
    arrays = max((path for path in files if "state" in path.parts), key=lambda p: p.stat().st_size)
    path = arrays if file == "arrays" else copied / "30" / "record" / "metadata"
    path.write_bytes(damage(path.read_bytes()))
    said = []
    with Checkpoints(copied, Retention(), report=said.append) as checkpoints:
        state, record = checkpoints.newest(state_at(0))
        equal(state, state_at(20))
        assert record == {"position": 20}
        assert len(said) == 1
        assert re.fullmatch(r"checkpoint 30 .*; going on from checkpoint 20", said[0])
        checkpoints.save(state_at(25), {})
        checkpoints.wait()
        assert checkpoints.steps() == [20, 25]
    assert (copied.parent / "checkpoints.broken" / "30").exists()


def test_a_broken_checkpoint_that_has_been_made_up_for_is_as_good_as_any(copied):
    shutil.rmtree(copied / "30" / "state")
    said = []
    with Checkpoints(copied, Retention(), report=said.append) as checkpoints:
        checkpoints.newest(state_at(0))
        for step in (30, 40):
            checkpoints.save(state_at(step), {"again": step})
        checkpoints.wait()
        assert checkpoints.steps() == [30, 40]
        assert checkpoints.restore(30, state_at(0))[1] == {"again": 30}
    assert len(said) == 2  # that it is passed over, and where it was moved


def test_if_every_checkpoint_is_broken_nothing_is_begun_anew_and_one_error_names_them(
    copied, capfd, caplog
):
    for record in copied.glob("*/record/metadata"):
        record.unlink()
    with (
        Checkpoints(copied) as checkpoints,
        pytest.raises(Unreadable, match=r"is broken: checkpoint 30 .*20 .*10 .* to begin anew"),
    ):
        checkpoints.newest(state_at(0))
    assert (*capfd.readouterr(), caplog.text) == ("", "", "")


def test_what_is_passed_over_is_one_plain_line_on_stderr(copied, capfd, caplog):
    (copied / "30" / "record" / "metadata").unlink()
    with Checkpoints(copied) as checkpoints:
        checkpoints.newest(state_at(0))
    out, err = capfd.readouterr()
    assert (out, caplog.text) == ("", "")
    assert err.startswith("checkpoint 30 cannot be read (")
    assert err.endswith("; going on from checkpoint 20\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("file", "room"), [("record", 1500), ("arrays", 20_000)])
def test_a_full_disk_is_an_error_that_says_so_and_leaves_what_was_there(tmp_path, file, room):
    def state(step):
        return state_at(step, width=3 if file == "record" else 400)

    with Checkpoints(tmp_path, Retention(latest=2)) as checkpoints:
        for step in (10, 20):
            checkpoints.save(state(step), {})
            checkpoints.wait()
        with no_file_larger_than(room):
            checkpoints.save(state(30), {})
            with pytest.raises(NotSaved, match=r"checkpoint 30 .* room"):
                checkpoints.wait()
        assert checkpoints.steps() == [10, 20]
        checkpoints.save(state(30), {})  # there is room again
        checkpoints.wait()
        assert checkpoints.steps() == [20, 30]
    with Checkpoints(tmp_path) as checkpoints:
        for step in (20, 30):
            equal(checkpoints.restore(step, state(0))[0], state(step))


@contextlib.contextmanager
def no_file_larger_than(size):
    """As good as a full disk to who writes: the rest of a file is refused."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def test_another_model_is_refused_with_the_difference(three):
    with Checkpoints(three) as checkpoints, pytest.raises(Mismatch) as refusal:
        checkpoints.newest(state_at(0, width=4))
    assert "'float32[3, 40]' -> 'float32[4, 40]'" in str(refusal.value)


def test_a_record_may_hold_what_is_not_a_number_and_names_that_are(tmp_path):
    with Checkpoints(tmp_path, Retention()) as checkpoints:
        checkpoints.save(state_at(1), {"loss": float("nan"), "é": {2: [1, 10]}})
        _, record = checkpoints.restore(1, state_at(1))
    assert np.isnan(record["loss"])
    assert record["é"] == {"2": [1, 10]}


def test_none_at_all_is_none(tmp_path):
    with Checkpoints(tmp_path / "not" / "there") as checkpoints:
        assert checkpoints.newest(state_at(0)) is None
        assert checkpoints.best_step() is None


def test_nothing_is_logged_by_the_library_underneath(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG), Checkpoints(tmp_path, Retention()) as checkpoints:
        checkpoints.save(state_at(1), {})
    assert not [r for r in caplog.records if "orbax" in r.pathname and r.name == "absl"]


def test_retention_that_keeps_nothing_is_refused():
    with pytest.raises(ValueError, match="latest >= 1"):
        Retention(latest=0)


def test_of_equal_scores_the_earlier_is_best():
    assert Retention(best=1).best_of({1: 2.0, 2: 2.0}) == [1]
    assert Retention(best=1).best_of({1: -np.inf, 2: 0.0}) == [2]
