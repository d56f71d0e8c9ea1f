"""Each pitfall and its mending, on shortened runs, for three seeds."""

import contextlib
import functools
import io
import json
import math
from pathlib import Path

import jax
import numpy as np
import pytest

from attn_jax import masks, scores
from attn_jax.diagnostics.paths import causal_leak
from experiments.pitfalls import leaks, overfitting, rounding, saturation
from experiments.pitfalls.__main__ import main
from experiments.pitfalls.config import Config, Leaks, Overfitting, Rounding, Saturation

CONFIG = Path(__file__).parents[2] / "configs/pitfalls/default.py"
SEEDS = np.arange(3)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The whole experiment, with trainings of two steps."""
    workdir, out = tmp_path_factory.mktemp("run"), io.StringIO()
    trained = ("saturation", "overfitting", "leaks")
    short = [f"--config.{name}.steps=2" for name in trained]
    short += ["--config.rematerialisation.layers=(2, 8)", "--config.rematerialisation.repeats=1"]
    with contextlib.redirect_stdout(out):
        assert main([f"--config={CONFIG}", f"--workdir={workdir}", *short]) == 0
    return out.getvalue(), json.loads((workdir / "result.json").read_text()), workdir


def test_unscaled_scores_learn_late_for_want_of_a_slope():
    section = Saturation(steps=60, batch=16)

    def ways(score):
        learners = jax.vmap(functools.partial(saturation.learn, score, section, 1e-2))
        return np.asarray(jax.jit(learners)(SEEDS))

    dot, scaled = ways(scores.dot()), ways(scores.scaled_dot())
    assert (scaled[:, 30:40].mean(1) < 0.3 * dot[:, 30:40].mean(1)).all()
    assert (scaled[:, -10:].mean(1) < 0.1).all()


def test_dropout_and_decay_keep_the_test_loss_from_rising():
    section = Overfitting(steps=100, tests=256)

    def learned(dropout, decay):
        learners = jax.vmap(lambda seed: overfitting.learn(section, dropout, decay, seed))
        return jax.tree.map(np.asarray, jax.jit(learners)(SEEDS))

    bare, mended = learned(0.0, 0.0), learned(section.dropout, section.decay)
    assert (bare["training"][:, -1] < 0.01).all()
    assert (bare["test"][:, -1] > 2 * bare["test"].min(1)).all()
    assert (mended["test"][:, -1] < 1.3 * mended["test"].min(1)).all()
    assert (mended["test"][:, -1] < 0.5 * bare["test"][:, -1]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_only_rounded_scores_spoil_weights_and_the_more_the_larger_they_are(seed):
    section = Rounding(sizes=(1.0, 30.0))
    small, large = rounding.rounding(Config(seeds=(int(seed),), rounding=section))
    for row in (small, large):
        half_a_step = 2.0 ** (math.floor(math.log2(row["largest score"])) - 8)
        # A weight is off by its own score's rounding, and by its row's in the denominator.
        assert row["bfloat16 scores"] <= 1.01 * math.expm1(2 * half_a_step)
        assert row["float32 scores"] < 2e-5
    assert large["bfloat16 scores"] > 0.05 > 10 * small["bfloat16 scores"]
    assert large["small ones raised so far"] > 5 * small["small ones raised so far"]


def test_rounding_is_what_a_cast_to_bfloat16_does():
    s = jax.random.normal(jax.random.key(0), (1000,)) * 10
    cast = np.asarray(s.astype(np.dtype("bfloat16")), np.float32)
    np.testing.assert_array_equal(rounding.to_bfloat16(s), cast)


def test_remat_trades_operations_for_memory_that_hardly_grows_with_depth(ran):
    rows = {(row["way"], row["layers"]): row for row in ran[1]["rematerialisation"]}

    def growth(way):
        return (rows[way, 8]["memory, MiB"] - rows[way, 2]["memory, MiB"]) / 6

    assert growth("remat") < 0.1 * growth("all kept")
    assert growth("remat") < growth("remat, products of weights kept")
    assert growth("blockwise attention") < 0.6 * growth("all kept")
    assert 1.2 < rows["remat", 8]["operations"] < 1.5
    assert rows["remat, products of weights kept", 8]["operations"] < 1.2
    assert all(row["time"] > 0 for row in rows.values())


def test_a_wrong_mask_gets_below_the_possible_loss_and_the_check_finds_it_untrained():
    section = Leaks(steps=60, batch=16)
    seen = np.stack([mask.dense(16, 16) for mask in leaks.MASKS.values()])
    by_seed = jax.vmap(functools.partial(leaks.learn, section), (None, 0))
    found, losses = jax.jit(jax.vmap(by_seed, (0, None)))(seen, SEEDS)
    final, floor = np.asarray(losses)[..., -10:].mean(-1), math.log(section.vocabulary)
    for name, leak, loss in zip(leaks.MASKS, np.asarray(found), final):
        future = np.triu(np.ones((16, 16), bool), 1)
        if name in leaks.MISTAKES:
            assert ((leak > 0) & future).any((1, 2)).all()
            assert (loss < floor - 0.1).all()
        else:
            assert not leak[:, future].any()
            assert (loss > floor - 0.03).all()


def test_a_mask_in_the_algebra_leaks_what_its_array_leaks():
    section, rng = Leaks(), jax.random.key(0)
    weights, x = leaks.begin(section, rng), jax.random.normal(rng, (16, section.width))
    leak = jax.jit(lambda x: causal_leak(lambda x: leaks.model(weights, masks.causal(1), x), x))(x)
    np.testing.assert_array_equal(np.triu(leak, 1) > 0, np.eye(16, k=1, dtype=bool))


def test_a_whole_run_leaves_tables_and_pictures(ran):
    said, result, workdir = ran
    names = ("saturation", "overfitting", "rounding", "rematerialisation", "leaks")
    assert set(result) == set(names)
    for name in names:
        assert str(workdir / f"{name}.png") in said
        assert (workdir / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    counts = {row["mask"]: row["leaking pairs"] for row in result["leaks"]}
    assert counts == {
        "causal()": 0, "causal(1)": 15, "~causal()": 120, "window(2, 2)": 29,
        "prefix_lm(4)": 6, "window(2, 2) & causal()": 0,
    }  # fmt: skip
