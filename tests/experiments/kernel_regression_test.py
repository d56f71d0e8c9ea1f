"""What kernel regression shows, on shortened runs."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from attn_jax import Rule, masks, regress, scores
from attn_jax.backends import dispatch
from attn_jax.backends.problem import describe
from attn_jax.data.noisy_curve import curve, observe
from experiments.command_line import load
from experiments.kernel_regression.__main__ import main
from experiments.kernel_regression.config import Config, Data, Heads, Learning, Sweep
from experiments.kernel_regression.method import (
    GRID,
    average,
    error_and_slope,
    learn_heads,
    learn_width,
    leave_one_out,
    observe_for,
    predict,
    sweep,
)

CONFIG = Path(__file__).parents[2] / "configs/kernel_regression/default.py"
SHORT = ["--config.sweep.widths=21", "--config.depths.depths=(1, 8)", "--config.depths.tests=50"]
TRIED = Sweep(high=0.8, widths=21)
SEEDS = (0, 1, 2)


class Ran(NamedTuple):
    said: str
    result: dict
    workdir: Path


pytestmark = pytest.mark.slow  # a whole run, and trainings for three seeds


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Ran:
    workdir, out = tmp_path_factory.mktemp("run"), io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([f"--config={CONFIG}", f"--workdir={workdir}", *SHORT]) == 0
    return Ran(out.getvalue(), json.loads((workdir / "result.json").read_text()), workdir)


def by_hand(x, y, width):
    """Leave-one-out error of a Gaussian, in float64."""
    x = x.astype(np.float64)
    square = np.square(x[:, None] - x).sum(-1)
    np.fill_diagonal(square, np.inf)
    kernel = np.exp(-0.5 * (square - square.min(1, keepdims=True)) / width**2)
    return np.square(kernel @ y / kernel.sum(1, keepdims=True) - y).mean()


@pytest.mark.parametrize("seed", SEEDS)
def test_sgd_finds_the_width_that_the_sweep_finds_and_it_predicts_best(seed):
    data, everyone = observe(150, seed=seed), np.arange(150)
    *_, last = epochs = learn_width(data, Learning(), seed)
    assert len(epochs) == 21
    errors = sweep(scores.gaussian, data, TRIED)
    best = TRIED.values()[errors.argmin()]
    assert last["w"] == pytest.approx(best, rel=0.2)  # the sweep goes in steps of 15 %
    assert last["loss"] < 1.001 * errors.min() < 0.5 * epochs[0]["loss"]
    rules = (Rule(scores.gaussian(last["w"])), Rule(scores.gaussian(1.0)), average())
    left_out = [float(leave_one_out(rule, data, everyone, heads=1)[0]) for rule in rules]
    true = [float(np.square(predict(rule, data, GRID) - curve(GRID)).mean()) for rule in rules]
    assert left_out == sorted(left_out)
    assert true[0] < 0.2 * true[1] < true[2]


def test_loss_and_width_are_printed_each_epoch(ran):
    lines = re.findall(r"^epoch +(\d+)   loss (\d\.\d{4})   w (\d\.\d{4})$", ran.said, re.MULTILINE)
    assert [int(epoch) for epoch, *_ in lines] == list(range(21))
    assert float(lines[-1][1]) == pytest.approx(ran.result["epochs"][-1]["loss"], abs=1e-4)
    assert float(lines[-1][2]) == pytest.approx(ran.result["learned w"], abs=1e-4)


def test_the_estimators_use_ever_fewer_observations_and_err_ever_less(ran):
    average, fixed, learned = ran.result["estimators"]
    assert average["points used"] == pytest.approx(150, rel=1e-3)
    for name in ("left-out error", "true error", "points used"):
        assert average[name] > fixed[name] > 2 * learned[name]


def test_the_kernel_matters_little_at_its_best_width(ran):
    rows = ran.result["kernels"]
    assert {row["kernel"] for row in rows} == {
        "gaussian", "laplace", "triangular", "epanechnikov", "boxcar",
    }  # fmt: skip
    errors = [row["left-out error"] for row in rows]
    average = ran.result["estimators"][0]["left-out error"]
    assert max(errors) < 1.1 * min(errors) < 0.25 * average
    assert all(row["true error"] < 0.1 for row in rows)
    assert all(0.05 < row["width"] < 1 for row in rows)


def test_l2_is_the_gaussian_by_another_number():
    data, width = observe(150, seed=0), 0.3
    np.testing.assert_allclose(
        predict(Rule(scores.l2(0.5 / width**2)), data, GRID),
        predict(Rule(scores.gaussian(width)), data, GRID),
        rtol=1e-5,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_each_head_finds_its_own_width_the_faster_its_curve_the_narrower(seed):
    heads = Heads()
    rows, _ = learn_heads(observe_for(heads, Data(seed=seed)), heads, TRIED)
    widths = [row["learned"] for row in rows]
    assert widths[0] > 2 * widths[-1]
    assert min(widths) == widths[-1]
    assert max(widths) == widths[0]
    for row in rows:
        assert row["learned"] == pytest.approx(row["swept"], rel=0.25)
        assert row["left-out error"] < 1.005 * row["with one for all"]
    own, shared = (
        sum(row[name] for row in rows) for name in ("left-out error", "with one for all")
    )
    assert own < 0.995 * shared


def test_in_more_dimensions_kernels_are_wider_and_worse(ran):
    one, eight = ran.result["depths"]
    assert eight["width"] > 3 * one["width"]
    assert one["true error"] < 0.05 * one["of average pooling"]
    assert eight["true error"] > 0.5 * eight["of average pooling"]


def test_blockwise_is_dense_is_the_formula_in_value_and_slope():
    data, everyone, width = observe(600, seed=3), np.arange(600), 0.2
    problem = describe(
        data.x[:, None], data.x[:, None], data.y, Rule(scores.gaussian(width)) & ~masks.diagonal()
    )
    assert dispatch.choose("auto", problem).name == "blockwise"
    value, slope = error_and_slope(Rule(scores.gaussian(width)), data, everyone, heads=1)
    densely = jax.jit(lambda rule, x, y: regress(x, x, y, rule=rule, backend="dense"))
    left_out = densely(problem.rule, data.x, data.y[:, 0])
    assert value == pytest.approx(np.square(left_out - data.y[:, 0]).mean(), rel=1e-5)
    formula, nearby = by_hand(data.x, data.y[:, 0], width), (width - 1e-3, width + 1e-3)
    assert value == pytest.approx(formula, rel=1e-4)
    below, above = (by_hand(data.x, data.y[:, 0], w) for w in nearby)
    assert slope.score.bandwidth == pytest.approx((above - below) / 2e-3, rel=1e-2)


def test_the_error_of_all_points_is_the_mean_of_each_point_s():
    data, rule = observe(150, seed=1), Rule(scores.gaussian(0.3))
    each = [float(leave_one_out(rule, data, np.array([n]), heads=1)[0]) for n in range(150)]
    assert np.mean(each) == pytest.approx(by_hand(data.x, data.y[:, 0], 0.3), rel=1e-4)
    everyone = leave_one_out(rule, data, np.arange(150), heads=1)[0]
    assert everyone == pytest.approx(np.mean(each), rel=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # statsmodels' own
@pytest.mark.parametrize("depth", [1, 2])
def test_statsmodels_agrees(depth):
    nonparametric = pytest.importorskip(
        "statsmodels.nonparametric.kernel_regression", reason="statsmodels is not installed"
    )
    data, width = observe(150, seed=4, depth=depth), 0.3
    there = observe(50, seed=5, depth=depth).x
    peer = nonparametric.KernelReg(
        data.y[:, 0, 0].astype(float), data.x.astype(float), "c" * depth, reg_type="lc",
        bw=[width] * depth,
    )  # fmt: skip
    rule = Rule(scores.gaussian(width))
    expected, _ = peer.fit(there.astype(float))
    np.testing.assert_allclose(predict(rule, data, there)[:, 0], expected, rtol=1e-4, atol=1e-5)
    left_out = float(leave_one_out(rule, data, np.arange(150), heads=1)[0])
    assert left_out == pytest.approx(
        np.ravel(peer.cv_loo(np.full(depth, width), peer.est["lc"]))[0], rel=1e-4
    )


@pytest.mark.parametrize("name", ["gaussian", "laplace", "epanechnikov"])
def test_scikit_learn_agrees(name):
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed")
    kernel = {
        "gaussian": lambda d: np.exp(-0.5 * (d / 0.3) ** 2),
        "laplace": lambda d: np.exp(-d / 0.3),
        "epanechnikov": lambda d: np.maximum(1 - (d / 0.3) ** 2, 0),
    }[name]
    data = observe(150, seed=4)
    peer = neighbors.KNeighborsRegressor(150, weights=kernel).fit(data.x, data.y[:, 0])
    rule = Rule(getattr(scores, name)(0.3))
    np.testing.assert_allclose(predict(rule, data, GRID), peer.predict(GRID), rtol=1e-4, atol=1e-5)


def test_it_leaves_its_result_its_config_and_its_pictures(ran):
    config = json.loads((ran.workdir / "config.json").read_text())
    assert config["depths"] == {"depths": [1, 8], "tests": 50}
    assert config["learning"]["rate"] == 0.5
    for name in ("predictions", "attention", "bandwidths", "heads"):
        picture = ran.workdir / f"{name}.png"
        assert str(picture) in ran.said
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_hundred_thousand_points_are_a_variant():
    large = load(f"{CONFIG}:large")
    assert large.data.points == 100_000
    assert 0 < large.sweep.points < large.learning.points < large.data.points
    assert load(str(CONFIG)) == Config()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([f"--config={CONFIG}:huge"], 2, "no variant 'huge'; there are small, large"),
        ([f"--config={CONFIG}", "--config.learning.points=151"], 2, "cannot draw 151 of 150"),
        (
            [f"--config={CONFIG}", "--config.learning.start=0"],
            1,
            "epoch 1: the leave-one-out error of gaussian(nan)",
        ),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(arguments, code, says, tmp_path, capsys):
    assert main([*arguments, f"--workdir={tmp_path / 'run'}"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not (tmp_path / "run").exists()
