"""Each pitfall and its mending, on shortened runs, for three seeds."""

import json
import math
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from attn_jax import masks
from attn_jax.diagnostics.paths import causal_leak
from experiments.command_line import load
from experiments.pitfalls import leaks, rounding
from experiments.pitfalls.__main__ import main, run
from experiments.pitfalls.config import (
    Config,
    Leaks,
    Overfitting,
    Rematerialisation,
    Rounding,
    Saturation,
)

CONFIG = Path(__file__).parents[2] / "configs/pitfalls/default.py"
SEEDS = (0, 1, 2)

pytestmark = pytest.mark.slow


class Ran(NamedTuple):
    config: Config
    result: dict
    traces: dict


@pytest.fixture(scope="module")
def ran() -> Ran:
    """Every part, with shorter trainings."""
    config = Config(
        saturation=Saturation(steps=60, batch=16, rates=(1e-2,)),
        overfitting=Overfitting(steps=100, tests=256),
        rematerialisation=Rematerialisation(layers=(2, 8), tokens=128, repeats=1),
        leaks=Leaks(steps=60, batch=16),
    )
    return Ran(config, *run(config))


def test_unscaled_scores_learn_late_for_want_of_a_slope(ran):
    ways = ran.traces["saturation"]
    late = {name: way[:, 30:40].mean(1) for name, way in ways.items()}
    for mended in ("scaled dot", "cosine, τ = 0.1"):
        assert (late[mended] < 0.3 * late["dot"]).all()
        assert (ways[mended][:, -10:].mean(1) < 0.1).all()


def test_dropout_and_decay_keep_the_test_loss_from_rising(ran):
    ways = ran.traces["overfitting"]
    (training, bare), (_, mended) = ways["neither"], ways["dropout and weight decay"]
    assert (training[:, -1] < 0.01).all()
    assert (bare[:, -1] > 2 * bare.min(1)).all()
    assert (mended[:, -1] < 1.3 * mended.min(1)).all()
    assert (mended[:, -1] < 0.5 * bare[:, -1]).all()
    for one in ("dropout", "weight decay"):
        assert (ways[one][1][:, -1] < bare[:, -1]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_only_rounded_scores_spoil_weights_and_the_more_the_larger_they_are(seed):
    section = Rounding(sizes=(1.0, 30.0))
    small, large = rounding.rounding(Config(seeds=(seed,), rounding=section))
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
    rows = {(row["way"], row["layers"]): row for row in ran.result["rematerialisation"]}

    def growth(way):
        return (rows[way, 8]["memory, MiB"] - rows[way, 2]["memory, MiB"]) / 6

    assert growth("remat") < 0.1 * growth("all kept")
    assert growth("remat") < growth("remat, products of weights kept")
    assert growth("blockwise attention") < 0.7 * growth("all kept")
    assert 1.2 < rows["remat", 8]["operations"] < 1.5
    assert rows["remat, products of weights kept", 8]["operations"] < 1.2
    assert all(row["time"] > 0 for row in rows.values())


def test_a_wrong_mask_gets_below_the_possible_loss_and_the_check_finds_it_untrained(ran):
    floor = math.log(ran.config.leaks.vocabulary)
    for name, (leak, losses) in ran.traces["leaks"].items():
        future, loss = np.triu(leak > 0, 1), losses[:, -10:].mean(1)
        if name in leaks.MISTAKES:
            assert future.any((1, 2)).all()
            assert (loss < floor - 0.1).all()
        else:
            assert not future.any()
            assert (loss > floor - 0.03).all()
    counts = {row["mask"]: row["leaking pairs"] for row in ran.result["leaks"]}
    assert counts == {
        "causal()": 0, "causal(1)": 15, "~causal()": 120, "window(2, 2)": 29,
        "prefix_lm(4)": 6, "window(2, 2) & causal()": 0,
    }  # fmt: skip


def test_a_mask_in_the_algebra_leaks_what_its_array_leaks():
    section, rng = Leaks(), jax.random.key(0)
    weights, x = leaks.begin(section, rng), jax.random.normal(rng, (16, section.width))
    leak = jax.jit(lambda x: causal_leak(lambda x: leaks.model(weights, masks.causal(1), x), x))(x)
    np.testing.assert_array_equal(np.triu(leak, 1) > 0, np.eye(16, k=1, dtype=bool))


def test_it_prints_its_tables_and_leaves_its_pictures(ran, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("experiments.pitfalls.__main__.run", lambda config: ran[1:])
    assert main([f"--config={CONFIG}", f"--workdir={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert json.loads((tmp_path / "result.json").read_text()) == ran.result
    for name in ran.result:
        assert str(tmp_path / f"{name}.png") in said
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "~causal()" in said


def test_the_default_config_is_the_default():
    assert load(str(CONFIG)) == Config()
