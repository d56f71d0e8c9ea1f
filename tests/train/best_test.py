"""The best states of a run, as whoever comes after it finds them."""

import shutil

import pytest

from attn_jax.train.best import best_states
from attn_jax.train.checkpoints import Unreadable
from attn_jax.train.identity import Mismatch
from attn_jax.train.loop import fit
from attn_jax.train.standing import Plan, Run
from attn_jax.train.step import make_step

CONFIG = {"width": 8, "rate": 0.1}


@pytest.fixture(scope="module")
def step(tiny):
    return make_step(tiny.spoilt_loss, tiny.optimizer())


@pytest.fixture(scope="module")
def trained(tiny, step, tmp_path_factory):
    """A run whose second and third step are its best, and are kept, as is the newest, the fourth."""
    run = Run(tmp_path_factory.mktemp("run"), config=CONFIG, identity={"words": "a1", "data": "x"})
    scores = [3.0, 9.0, 5.0, 4.0]
    plan = Plan(
        4, evaluate_every=1, metric="bleu", higher_is_better=True, keep_latest=1, keep_best=2
    )
    evaluate = lambda state: {"bleu": scores[int(state.step) - 1]}  # noqa: E731
    fit(tiny.state(), step, tiny.batches(), plan=plan, run=run, evaluate=evaluate)
    return run.workdir


def steps(tiny, workdir, count=1, **of_run):
    run = Run(workdir, **{"config": CONFIG, "identity": {"words": "a1"}, **of_run})
    return [int(state.step) for state in best_states(run, tiny.state(), count)]


def test_they_come_best_first_and_as_many_as_there_are(tiny, trained):
    assert steps(tiny, trained) == [2]
    assert steps(tiny, trained, 2) == [2, 3]
    assert steps(tiny, trained, 9) == [2, 3, 4]


def test_of_the_identity_what_is_named_is_compared_and_the_config_as_when_going_on(tiny, trained):
    with pytest.raises(Mismatch, match="another words:\n  words: 'a1' -> 'b2'"):
        steps(tiny, trained, identity={"words": "b2"})
    with pytest.raises(Mismatch, match=r"rate: 0\.1 -> 0\.2"):
        steps(tiny, trained, config=CONFIG | {"rate": 0.2})
    later = CONFIG | {"rate": 0.2, "bias": True}
    assert steps(tiny, trained, config=later, free={"rate"}, defaults={"bias": True}) == [2]


def test_a_broken_one_is_told_and_the_next_best_is_taken(tiny, trained, tmp_path, capsys):
    broken = shutil.copytree(trained, tmp_path / "run")
    (broken / "checkpoints" / "2" / "record" / "metadata").write_text("{")
    assert steps(tiny, broken) == [3]
    assert "checkpoint 2 cannot be read" in capsys.readouterr().err
    for number in "34":
        (broken / "checkpoints" / number / "record" / "metadata").write_text("{")
    with pytest.raises(Unreadable, match="every checkpoint"):
        steps(tiny, broken)


def test_without_evaluations_it_is_the_newest_and_without_checkpoints_none(tiny, step, tmp_path):
    run = Run(tmp_path / "run", config=CONFIG, identity={"words": "a1"})
    fit(tiny.state(), step, tiny.batches(), plan=Plan(3, save_every=1), run=run)
    assert steps(tiny, run.workdir) == [3]
    with pytest.raises(FileNotFoundError, match="nothing has been trained in"):
        steps(tiny, tmp_path / "none")
    (tmp_path / "begun" / "checkpoints" / "2.orbax-checkpoint-tmp").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="nothing has been trained in"):
        steps(tiny, tmp_path / "begun")
