"""What the heads experiment claims, on shortened runs, for three seeds."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from experiments.heads.__main__ import main
from experiments.heads.config import Config, Task, Training
from experiments.heads.method import look_into, looks_back, prune, score, train, without_each

CONFIG = Path(__file__).parents[2] / "configs/heads/default.py"
SHORT = Config(
    width=32, task=Task(distances=(1, 4, 7), vocabulary=8, length=16),
    train=Training(rows=32, steps=250, rate=2e-2),
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def many():
    return train(SHORT, 4)


def test_one_head_cannot_tell_apart_what_it_blends_and_many_can(many):
    loss, accuracy = score(SHORT, train(SHORT, 1))
    assert (loss.mean(1) > 0.6).all()
    assert (accuracy.mean(1) < 0.7).all()
    loss, accuracy = score(SHORT, many)
    assert (loss.mean(1) < 0.1).all()
    assert (accuracy.mean(1) > 0.95).all()


@pytest.mark.parametrize("seed", range(3))
def test_heads_look_where_the_answers_are_and_each_is_missed(many, seed):
    model = many.of(seed)
    rows, back, divergence = look_into(SHORT, model)
    assert back[:, list(SHORT.task.distances)].sum() > 0.8 * back.sum()
    assert divergence.max() > 0.05
    lost = np.array([row["lost"] for row in rows])
    matters = np.array([row["influence"] for row in rows])
    assert (lost > 0).all()
    order = matters.argsort()
    kindly, cruelly = prune(SHORT, model, order), prune(SHORT, model, order[::-1])
    assert kindly[1] <= cruelly[1]
    assert kindly[0] == pytest.approx(cruelly[0])
    assert kindly[-1] == pytest.approx(cruelly[-1])
    assert spearmanr(matters, lost).statistic > 0


def test_pruning_is_what_its_gates_say(many):
    model = many.of(0)
    whole, without = without_each(SHORT, model)
    order = np.arange(4)
    losses = prune(SHORT, model, order)
    assert losses[0] == pytest.approx(whole)
    assert losses[1] == pytest.approx(without[0])
    depth, kernel = model.attention.depth, model.attention.out.kernel
    kernel[...] = kernel[...].at[:depth].set(0)  # what the first head has to say
    assert without_each(SHORT, model)[0] == pytest.approx(without[0], rel=1e-4)


def test_where_heads_look_back_to():
    weights = np.broadcast_to(np.eye(6, k=-2), (2, 3, 6, 6))
    np.testing.assert_array_equal(looks_back(weights, 4), np.tile([0, 0, 1, 0], (3, 1)))


def test_a_whole_run_leaves_tables_and_pictures(tmp_path):
    small = ["width=8", "heads=(1, 2)", "seeds=(0,)", "train.steps=2", "train.rows=2"]
    task = ["task.distances=(1, 3)", "task.vocabulary=4", "task.length=6"]
    arguments = [f"--config.{x}" for x in (*small, *task)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", *arguments]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert [row["heads"] for row in result["compared"]] == [1, 2]
    assert len(result["heads"]) == 2
    assert [len(x) for x in result["pruned"].values()] == [3, 3]
    assert {"losses.png", "distances.png", "pruning.png"} <= {x.name for x in tmp_path.iterdir()}
    assert str(tmp_path / "pruning.png") in out.getvalue()


def test_what_is_out_of_range_is_told_in_a_line(tmp_path):
    for argument, message in {
        "--config.heads=(3,)": "numbers of heads that divide width, 64",
        "--config.task.distances=(40,)": "task.distances from 0 to 15",
        "--config.task.length=10": "task.length of more than 10",
        "--config.train.rows=0": "train.rows of at least 1",
    }.items():
        with contextlib.redirect_stderr(io.StringIO()) as err:
            assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", argument]) == 2
        assert message in err.getvalue()
