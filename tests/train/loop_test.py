import dataclasses
import json
import signal
import subprocess
import sys

import chex
import jax
import numpy as np
import pytest
from jax._src.array import ArrayImpl

from attn_jax.train.checkpoints import Checkpoints
from attn_jax.train.identity import Mismatch
from attn_jax.train.lock import WorkdirBusy, hold
from attn_jax.train.loop import NonFinite, fit
from attn_jax.train.signals import Interrupted
from attn_jax.train.standing import Plan, Run
from attn_jax.train.state import average
from attn_jax.train.step import make_evaluate, make_step
from attn_jax.train.stream import Stream

STEPS = 14
PLAN = Plan(STEPS, log_every=3, evaluate_every=4, save_every=5)


@pytest.fixture(scope="module")
def train(tiny):
    """Trains the tiny model in a directory; the step is compiled once."""
    step, evaluation = make_step(tiny.spoilt_loss, tiny.optimizer()), make_evaluate(tiny.loss)
    held_out = [tiny.batch_of(range(8))]

    def run(
        workdir,
        *,
        plan=PLAN,
        evaluate=True,
        watch=None,
        spoil=(),
        at_batch=None,
        step=step,
        **of_run,
    ):
        source, seen = tiny.batches(spoil=spoil), []

        def draw(number):
            if at_batch and number in at_batch:
                at_batch[number]()
            batch = source._draw(number)
            seen.append(batch["index"].tolist())
            return batch

        if evaluate is True:
            evaluate = lambda state: evaluation(state.params, held_out)  # noqa: E731
        run.seen = seen
        return fit(
            tiny.state(ema=True),
            step,
            Stream(draw),
            plan=plan,
            run=Run(workdir, **of_run),
            evaluate=evaluate or None,
            watch=watch,
        )

    return run


@pytest.fixture(scope="module")
def uninterrupted(train, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("uninterrupted")
    state, report = train(workdir)
    return workdir, state, report, train.seen


def terminate():
    signal.raise_signal(signal.SIGTERM)


def numbers(state):
    return jax.tree.map(np.asarray, (state.params, state.opt_state, state.ema, state.step))


def metrics_of(workdir):
    return (workdir / "metrics.jsonl").read_text()


def steps_of(workdir):
    with Checkpoints(workdir / "checkpoints") as checkpoints:
        return checkpoints.steps()


def test_it_learns_and_says_so(uninterrupted, tiny):
    workdir, state, report, _ = uninterrupted
    lines = [json.loads(line) for line in metrics_of(workdir).splitlines()]
    assert [x["step"] for x in lines if x["split"] == "train"] == [3, 6, 9, 12]
    assert [x["step"] for x in lines if x["split"] == "validation"] == [4, 8, 12, 14]
    losses = {x["step"]: x["loss"] for x in lines if x["split"] == "validation"}
    assert losses[STEPS] < losses[4]
    assert report.best == min(losses.items(), key=lambda item: item[1])
    assert report.evaluation["loss"] == losses[STEPS]
    assert (report.status, report.step, report.resumed_from) == ("finished", STEPS, 0)
    assert int(state.step) == STEPS
    assert report.tokens_per_second > 0


@pytest.mark.parametrize("batch", [1, 2, 5, 6, 8, 11])
def test_stopped_and_resumed_is_never_stopped(train, uninterrupted, tmp_path, capsys, batch):  # T1
    whole, state, _, seen = uninterrupted
    with pytest.raises(Interrupted, match="SIGTERM: saved at step") as stopped:
        train(tmp_path, at_batch={batch: terminate})
    assert stopped.value.code == 0
    assert train.seen == seen[: batch + 1]  # the step was finished
    assert f"saved at step {batch + 1}" in capsys.readouterr().err
    resumed, report = train(tmp_path)
    assert train.seen == seen[batch + 1 :]
    assert report.resumed_from == batch + 1
    chex.assert_trees_all_equal(numbers(resumed), numbers(state))
    assert metrics_of(tmp_path) == metrics_of(whole)


def test_dying_between_saves_repeats_the_steps_since(train, uninterrupted, tmp_path):
    whole, state, *_ = uninterrupted

    def die():
        raise RuntimeError("died")

    for batch in (7, 9, 13):
        with pytest.raises(RuntimeError, match="died"):
            train(tmp_path, at_batch={batch: die})
    resumed, report = train(tmp_path)
    assert report.resumed_from == 12
    chex.assert_trees_all_equal(numbers(resumed), numbers(state))
    assert metrics_of(tmp_path) == metrics_of(whole)


def test_a_signal_while_evaluating_stops_at_once_and_the_evaluation_is_made_up(
    train, uninterrupted, tmp_path
):
    whole, state, *_ = uninterrupted
    reached = []

    def evaluate(state):
        terminate()
        reached.append(state)

    with pytest.raises(Interrupted, match="step 4"):
        train(tmp_path, evaluate=evaluate)
    assert not reached
    resumed, _ = train(tmp_path)
    chex.assert_trees_all_equal(numbers(resumed), numbers(state))
    assert metrics_of(tmp_path) == metrics_of(whole)


def test_a_finished_run_is_left_as_it_is(train, uninterrupted, tmp_path, capsys):
    train(tmp_path)
    before = metrics_of(tmp_path)

    def evaluate(state):
        raise AssertionError("evaluated again")

    state, report = train(tmp_path, evaluate=evaluate)
    assert train.seen == []
    assert (report.status, report.resumed_from, report.tokens) == ("finished", STEPS, 0)
    assert report.best == uninterrupted[2].best
    assert metrics_of(tmp_path) == before
    chex.assert_trees_all_equal(numbers(state), numbers(uninterrupted[1]))
    assert "finished at step 14" in capsys.readouterr().err


def test_other_data_is_refused_with_the_difference(train, tmp_path):  # T3, T19
    identity = {"data": "rows=4 seed=0", "tokenizer": "a1"}
    train(tmp_path, plan=Plan(2), identity=identity)
    with pytest.raises(Mismatch, match="data: 'rows=4 seed=0' -> 'rows=8 seed=0'"):
        train(tmp_path, plan=Plan(4), identity=identity | {"data": "rows=8 seed=0"})
    with pytest.raises(Mismatch, match="tokenizer: 'a1' -> 'b2'"):
        train(tmp_path, plan=Plan(4), identity=identity | {"tokenizer": "b2"})


def test_a_changed_config_is_applied_and_printed_or_refused(train, tmp_path, capsys):
    config = {"model": {"width": 8}, "steps": 2}
    free = frozenset({"steps"})
    train(tmp_path, plan=Plan(2), config=config, free=free)
    _, report = train(tmp_path, plan=Plan(3), config=config | {"steps": 3}, free=free)
    assert report.step == 3
    assert "changed: steps: 2 -> 3" in capsys.readouterr().err
    with pytest.raises(Mismatch, match=r"model\.width: 8 -> 16"):
        train(tmp_path, plan=Plan(4), config={"model": {"width": 16}, "steps": 4}, free=free)


def scripted(scores):
    """An evaluation that gives these scores, one after the other, by the state's step."""
    return lambda state: {"bleu": scores[int(state.step) - 1]}


def bleu_plan(steps, **kwargs):
    return Plan(steps, evaluate_every=1, metric="bleu", higher_is_better=True, **kwargs)


def test_the_newest_is_saved_though_it_got_worse_after_resuming(train, tmp_path):  # T4, T5, T9
    evaluate = scripted([3.0, 9.0, 5.0, 4.0])
    train(tmp_path, plan=bleu_plan(2, keep_latest=1, keep_best=2), evaluate=evaluate)
    _, report = train(tmp_path, plan=bleu_plan(4, keep_latest=1, keep_best=2), evaluate=evaluate)
    assert steps_of(tmp_path) == [2, 3, 4]
    assert report.best == (2, 9.0)


def test_patience_runs_out_and_its_counter_survives(  # T8
    train, tmp_path, tmp_path_factory, capsys
):
    flat = scripted([1.0, 2.0] + [2.0] * 12)
    plan = bleu_plan(STEPS, patience=3)
    _, report = train(tmp_path, plan=plan, evaluate=flat)
    assert (report.status, report.step, report.best) == ("stopped early", 5, (2, 2.0))
    assert "stopped early at step 5 of" in (told := capsys.readouterr().err)
    assert "no better" in told
    assert train(tmp_path, plan=plan, evaluate=flat)[1].step == 5
    assert train.seen == []
    other = tmp_path_factory.mktemp("resumed")
    with pytest.raises(Interrupted):
        train(other, plan=plan, evaluate=flat, at_batch={3: terminate})
    _, report = train(other, plan=plan, evaluate=flat)
    assert (report.status, report.step, report.resumed_from) == ("stopped early", 5, 4)


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_state(  # T24
    train, uninterrupted, tmp_path
):
    whole, state, _, seen = uninterrupted
    with pytest.raises(NonFinite, match="step 8 is not finite") as stopped:
        train(tmp_path, spoil=[7])
    assert str(seen[7]) in str(stopped.value)
    assert steps_of(tmp_path)[-1] == 7
    resumed, report = train(tmp_path)  # with whole data this time
    assert report.resumed_from == 7
    assert train.seen == seen[7:]
    chex.assert_trees_all_equal(numbers(resumed), numbers(state))
    assert metrics_of(tmp_path) == metrics_of(whole)


@pytest.mark.slow
def test_as_many_as_may_be_are_skipped(train, tiny, tmp_path, capsys):
    step = make_step(tiny.spoilt_loss, tiny.optimizer(), skip=2)
    state, report = train(tmp_path / "two", spoil=[4, 5], step=step)
    assert (report.status, int(state.step)) == ("finished", STEPS)
    told = f"step 5 skipped: its loss or gradient is not finite; its examples are {train.seen[4]}"
    assert told in capsys.readouterr().err
    assert '"step": 6, "split": "train"' in metrics_of(tmp_path / "two")
    assert '"skipped": 2' in metrics_of(tmp_path / "two")
    with pytest.raises(NonFinite, match=r"step 7 is not finite \(3 in a row\)"):
        train(tmp_path / "three", spoil=[4, 5, 6], step=step)
    assert steps_of(tmp_path / "three")[-1] == 6


def test_a_second_run_is_refused_before_it_touches_anything(train, tmp_path):
    script = "import sys, fcntl; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(); input()"
    command = [sys.executable, "-c", script, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(WorkdirBusy):
            train(tmp_path)
        other.communicate(b"\n")
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_an_experiment_may_hold_the_workdir_around_it(train, tmp_path):
    with hold(tmp_path):
        train(tmp_path, plan=Plan(1))


def test_batches_that_end_are_an_error_that_says_so(train, tmp_path):
    def end():
        raise StopIteration

    with pytest.raises(ValueError, match=f"ended after step 3 of {STEPS}"):
        train(tmp_path, at_batch={3: end})


def test_what_goes_wrong_in_the_data_says_at_which_step(train, tmp_path):
    def odd():
        raise ValueError("source 17 holds id 99")

    with pytest.raises(ValueError, match="source 17") as odd_example:
        train(tmp_path, at_batch={3: odd})
    assert odd_example.value.__notes__ == ["while the batch of step 4 was drawn"]


def test_what_does_not_fit_is_refused(train, tiny, tmp_path):
    with pytest.raises(ValueError, match=r"'bleu', by which the plan judges, got \['loss'\]"):
        train(tmp_path, plan=bleu_plan(1), evaluate=lambda state: {"loss": 1.0})
    with pytest.raises(TypeError, match="get_state"):
        fit(tiny.state(), None, iter([]), plan=Plan(1), run=Run(tmp_path))
    with pytest.raises(ValueError, match="log_every of at least 1"):
        Plan(1, log_every=0)


def test_nothing_but_our_own_lines_reaches_the_terminal(train, tmp_path, capfd):
    train(tmp_path)
    out, err = capfd.readouterr()
    assert out == ""
    assert all(line.startswith(("step ", "validation at step ")) for line in err.splitlines()), err
    assert "left" in err


@pytest.mark.slow
def test_six_steps_are_traced_and_nothing_else_changes(train, uninterrupted, tmp_path, capsys):
    whole, state, *_ = uninterrupted
    plan = dataclasses.replace(PLAN, profile=5)
    traced, _ = train(tmp_path / "one", plan=plan)
    assert f"trace up to step 10: {tmp_path / 'one' / 'profile'}" in capsys.readouterr().err
    assert len(list((tmp_path / "one" / "profile").rglob("*.xplane.pb"))) == 1
    chex.assert_trees_all_equal(numbers(traced), numbers(state))
    assert metrics_of(tmp_path / "one") == metrics_of(whole)
    with pytest.raises(Interrupted):
        train(tmp_path / "two", plan=plan, at_batch={6: terminate})
    assert "trace up to step 7" in capsys.readouterr().err
    train(tmp_path / "two", plan=plan)
    assert "nothing is traced: step 5 has been taken" in capsys.readouterr().err


@pytest.mark.slow
def test_another_learning_rate_is_applied_from_where_it_was(train, tiny, tmp_path):
    free = frozenset({"peak"})
    train(tmp_path, plan=Plan(6, log_every=1), config={"peak": tiny.PEAK}, free=free)
    step = make_step(tiny.spoilt_loss, tiny.optimizer(0.02))
    train(tmp_path, plan=Plan(8, log_every=1), config={"peak": 0.02}, free=free, step=step)
    lines = [json.loads(line) for line in metrics_of(tmp_path).splitlines()]
    rates = {x["step"]: x["learning_rate"] for x in lines if x["split"] == "train"}
    assert rates[6] == pytest.approx(tiny.PEAK * (4 / 6) ** 0.5, rel=1e-6)
    assert rates[7] == pytest.approx(0.02 * (4 / 7) ** 0.5, rel=1e-6)


@pytest.mark.slow
def test_steps_are_taken_without_waiting_for_the_one_before(train, tiny, tmp_path, monkeypatch):
    """The device is waited for where a line is logged, evaluated or saved, and nowhere else."""
    read_at, get, value = [], jax.device_get, ArrayImpl._value
    waited = []

    def note(array):
        read_at.append(len(train.seen))
        return value.fget(array)

    monkeypatch.setattr(jax, "device_get", lambda tree: waited.append(tree) or get(tree))
    monkeypatch.setattr(ArrayImpl, "_value", property(note))
    train(tmp_path, plan=Plan(12, log_every=6), evaluate=False)
    steps = [tree for tree in waited if tree and isinstance(tree[0], dict) and "applied" in tree[0]]
    assert [len(tree) for tree in steps] == [6, 6]
    assert set(read_at) == {0, 6, 12}  # before the first, and after the sixth and the last


@pytest.mark.slow
def test_the_best_and_the_last_few_can_be_averaged(train, tiny, tmp_path):
    evaluate = scripted([3.0, 9.0, 5.0, 4.0])
    train(tmp_path, plan=bleu_plan(4, keep_latest=2, keep_best=2), evaluate=evaluate)
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        assert checkpoints.best_steps(2) == [2, 3]
        assert checkpoints.steps()[-2:] == [3, 4]
        two, three, four = (checkpoints.restore(n, tiny.state(ema=True))[0] for n in (2, 3, 4))
    for one, other in ((two, three), (three, four)):
        mean = average([one, other])
        for part in ("params", "ema"):
            parts = getattr(one, part), getattr(other, part)
            expected = jax.tree.map(lambda a, b: (a + b) / 2, *parts)
            chex.assert_trees_all_close(getattr(mean, part), expected, rtol=1e-6)
        assert int(mean.step) == int(other.step)


def test_a_run_that_began_before_a_field_existed_goes_on_and_may_not_change_it(train, tmp_path):
    defaults = {"width": 512, "bias": True}
    train(tmp_path, plan=Plan(2), config={"width": 8})
    with pytest.raises(Mismatch, match="bias: True -> False"):
        train(tmp_path, plan=Plan(3), config={"width": 8, "bias": False}, defaults=defaults)
    _, report = train(tmp_path, plan=Plan(3), config={"width": 8, "bias": True}, defaults=defaults)
    assert (report.resumed_from, report.step) == (2, 3)


def test_a_state_is_watched_besides_and_nothing_else_changes(train, tmp_path, uninterrupted):
    plan = dataclasses.replace(PLAN, watch_every=4)
    state, _ = train(tmp_path / "a", plan=plan, watch=lambda state: {"seen": float(state.step)})
    chex.assert_trees_all_equal(numbers(state), numbers(uninterrupted[1]))
    lines = [json.loads(line) for line in metrics_of(tmp_path / "a").splitlines()]
    watched = [line for line in lines if line["split"] == "watched"]
    assert [(x["step"], x["seen"]) for x in watched] == [(n, n) for n in (4, 8, 12, 14)]
    others = [line for line in lines if line["split"] != "watched"]
    assert others == [json.loads(x) for x in metrics_of(uninterrupted[0]).splitlines()]
    with pytest.raises(Interrupted):
        train(
            tmp_path / "b",
            plan=plan,
            watch=lambda state: {"seen": float(state.step)},
            at_batch={7: terminate},
        )
    train(tmp_path / "b", plan=plan, watch=lambda state: {"seen": float(state.step)})
    assert metrics_of(tmp_path / "b") == metrics_of(tmp_path / "a")
