"""What the recall experiment claims, on shortened runs, for three seeds."""

import contextlib
import functools
import io
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from experiments.recall.__main__ import main
from experiments.recall.config import MODELS, Config, Training
from experiments.recall.method import FILLER, FIRST, Learner, copying, looking_up, reached

CONFIG = Path(__file__).parents[2] / "configs/recall/default.py"
SHORT = Config(seeds=(0, 1, 2), train=Training(steps=400))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def learners():
    return {name: Learner(name, SHORT) for name in MODELS}


def test_one_vector_copies_what_is_short_and_attention_what_is_long(learners):
    found = {
        (name, n): learners[name].learn(functools.partial(copying, 8, n))
        for name, n in (("fixed vector", 3), ("fixed vector", 16), ("attention", 16),
                        ("Transformer", 16))
    }  # fmt: skip
    assert min(found["fixed vector", 3]["accuracies"]) > 0.95
    assert max(found["fixed vector", 16]["accuracies"]) < 0.75
    assert min(found["attention", 16]["accuracies"]) > 0.9
    assert min(found["Transformer", 16]["accuracies"]) > 0.9
    assert found["fixed vector", 16]["steps to 0.95"] is None


def test_attention_does_not_mind_how_far_it_is(learners):
    far = functools.partial(looking_up, 8, 4, 24)
    found = {name: learner.learn(far) for name, learner in learners.items()}
    assert max(found["fixed vector"]["accuracies"]) < 0.8
    assert min(found["attention"]["accuracies"]) > 0.95
    assert min(found["Transformer"]["accuracies"]) > 0.9


def test_what_is_asked_is_in_the_source():
    source, inputs, labels = map(np.asarray, copying(5, 7, 3, jax.random.key(0)))
    np.testing.assert_array_equal(labels, source)
    np.testing.assert_array_equal(inputs[:, 1:], source[:, :-1])
    source, inputs, labels = map(np.asarray, looking_up(5, 4, 3, 6, jax.random.key(0)))
    assert source.shape == (6, 10)
    assert (source[:, [0, 1, 2, 7, 8, 9]] == FILLER).all()
    np.testing.assert_array_equal(inputs[:, ::2], inputs[:, 1::2])
    assert (labels[:, ::2] == 0).all()
    pairs = FIRST + 10 + 5 * (inputs[:, 1::2] - FIRST) + labels[:, 1::2] - FIRST - 5
    np.testing.assert_array_equal(np.sort(pairs), np.sort(source[:, 3:7]))
    assert all(len(set(row)) == 4 for row in inputs[:, ::2].tolist())


def test_when_a_task_is_learned():
    accuracies = np.repeat([0.5, 1.0], [20, 30])
    assert reached(accuracies, 0.74) == 25
    assert reached(accuracies, 0.99) == 30
    assert reached(accuracies[:20], 0.74) is None


def test_a_whole_run_leaves_tables_and_pictures(tmp_path):
    small = ["width=8", "heads=1", "tasks.symbols=2", "tasks.lengths=(2,)", "tasks.pairs=1"]
    short = ["models=('attention',)", "tasks.distances=(1,)", "train.steps=10", "train.rows=2"]
    arguments = [f"--config.{x}" for x in (*small, *short)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", *arguments]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result) == {"copy", "look up"}
    assert 0 <= result["copy"]["attention"]["2"]["accuracy"] <= 1
    assert {"accuracy.png", "time.png", "learning.png"} <= {x.name for x in tmp_path.iterdir()}
    assert str(tmp_path / "learning.png") in out.getvalue()


def test_what_is_out_of_range_is_told_in_a_line(tmp_path):
    for argument, message in {
        "--config.models=('LSTM',)": "no model 'LSTM'; there are fixed vector, attention",
        "--config.heads=5": "a width that twice the heads divide",
        "--config.tasks.pairs=9": "tasks.pairs from 1 to as many",
        "--config.tasks.lengths=(0,)": "tasks.lengths of at least 1",
        "--config.train.steps=0": "train.steps of at least 10",
    }.items():
        with contextlib.redirect_stderr(io.StringIO()) as err:
            assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", argument]) == 2
        assert message in err.getvalue()
