"""What the scoring experiment claims, on shortened runs, for three seeds."""

import contextlib
import functools
import io
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from experiments.scoring.__main__ import main
from experiments.scoring.config import Config, Depths, Learning, Start
from experiments.scoring.method import BIASED, learn, over_depths, saturation, slope, starts

CONFIG = Path(__file__).parents[2] / "configs/scoring/default.py"
SEEDS = (0, 1, 2)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", SEEDS)
def test_only_scaled_scores_keep_their_variance_and_the_softmax_its_slope(seed):
    rows = over_depths(Config(seeds=(seed,), depths=Depths((16, 1024), keys=32)))
    found = {(row["score"], row["d"]): row for row in rows}
    for depth in (16, 1024):
        assert found["dot", depth]["variance"] == pytest.approx(depth, rel=0.3)
        assert found["scaled dot", depth]["variance"] == pytest.approx(1, rel=0.3)
    slopes = {key: row["slope"] for key, row in found.items()}
    assert slopes["dot", 1024] < 0.5 * slopes["dot", 16]
    assert slopes["scaled dot", 1024] == pytest.approx(slopes["scaled dot", 16], rel=0.2)
    assert found["dot", 1024]["entropy"] < 0.2 * found["scaled dot", 1024]["entropy"]


def test_the_slope_is_the_norm_of_the_softmaxs_jacobian():
    s = np.array([0.3, -1.0, 2.0])
    w = np.exp(s) / np.exp(s).sum()
    np.testing.assert_allclose(slope(s), np.linalg.norm(np.diag(w) - np.outer(w, w)), rtol=1e-5)


def test_past_thirty_nothing_is_left_to_learn_from():
    rows = saturation(Config())
    assert rows[0]["weight"] == pytest.approx(1 / 64)
    assert rows[30]["slope"] < 1e-11 < rows[20]["slope"]
    assert all(row["slope"] > 0 for row in rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_projections_that_keep_variance_keep_that_of_scores(seed):
    rows = starts(Config(seeds=(seed,), start=Start(128, 2, 32)))
    found = {row["initialiser"]: row for row in rows}
    assert found["Xavier uniform"]["variance of scores"] == pytest.approx(1, rel=0.4)
    assert found["He normal"]["variance of scores"] == pytest.approx(4, rel=0.5)
    ratio = "gradient of W_q ÷ W_v"
    assert found["normal 0.02"][ratio] < 0.3 * found["Xavier uniform"][ratio]
    assert found["normal 1"]["entropy"] < 0.2 * found["Xavier uniform"]["entropy"]


def test_additive_scores_need_a_bias_to_tell_that_vectors_are_alike():
    section = Learning(depths=(8,), keys=8, batch=32, steps=150)
    accuracy = {
        name: jax.jit(jax.vmap(functools.partial(learn, name, 8, section)))(np.array(SEEDS))[1]
        for name in ("scaled dot", "additive", BIASED)
    }
    assert max(accuracy["additive"]) < 0.35  # chance is 1/8
    assert min(accuracy[BIASED]) > 0.85
    assert min(accuracy["scaled dot"]) > 0.7


def test_a_whole_run_leaves_tables_and_pictures(tmp_path):
    short = ["--config.seeds=(0,)", "--config.depths.depths=(4, 16)", "--config.learning.steps=2"]
    small = [
        "--config.learning.depths=(4,)",
        "--config.learning.timed=16",
        "--config.start.width=64",
    ]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", *short, *small]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result) == {"depths", "saturation", "starts", "learning"}
    assert {"slopes.png", "saturation.png", "learning.png", "config.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert str(tmp_path / "slopes.png") in out.getvalue()
