"""What the positions experiment claims, on shortened runs, for three seeds."""

import contextlib
import io
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import positions
from experiments.positions.__main__ import main
from experiments.positions.config import Config, Model, Training
from experiments.positions.method import by_range, displacement, learn, read, shift, shifts

CONFIG = Path(__file__).parents[2] / "configs/positions/default.py"
SEEDS = (0, 1, 2)
SHORT = Config(
    seeds=SEEDS,
    model=Model(width=32, layers=1),
    train=Training(steps=250, rows=8, rate=1e-2),
    longest=512,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def text():
    return read(SHORT)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_positions_tell_a_permuted_block_from_its_permuted_outputs(seed):
    assert displacement("none", seed) < 1e-5
    assert displacement("none", seed, causal=True) > 0.1
    for kind in ("sinusoidal", "learned", "rotary", "t5", "alibi"):
        assert displacement(kind, seed) > 0.01, kind


@pytest.mark.parametrize("k", [1, 5, 100, 2_000])
def test_sinusoids_further_on_are_a_linear_map_of_those_here(k):
    matrix = shift(k, 32)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(32), atol=1e-5)
    p = np.arange(0, 900, 7)
    here, there = (np.asarray(positions.sinusoidal(jnp.asarray(x), 32)) for x in (p, p + k))
    np.testing.assert_allclose(here @ matrix.T, there, atol=3e-4)  # phases in float32
    exact = np.arange(8)[:, None] / 10_000 ** (np.arange(0, 32, 2) / 32)
    angles = exact + k / 10_000 ** (np.arange(0, 32, 2) / 32)
    waves = np.stack([np.sin(exact), np.cos(exact)], -1).reshape(8, 32)
    moved = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(8, 32)
    np.testing.assert_allclose(waves @ matrix.T, moved, atol=3e-4)
    assert shifts(SHORT, [k])[0]["largest |PE(p + k) − M PE(p)|"] < 3e-4


def test_distances_extrapolate_where_places_do_not(text):
    trained = {kind: learn(kind, SHORT, text) for kind in ("sinusoidal", "alibi")}
    near, far = (
        {kind: by_range(x, text, *places) for kind, x in trained.items()}
        for places in ((0, 64), (256, 512))
    )
    assert (far["alibi"] < near["alibi"] + 0.01).all()
    assert (far["sinusoidal"] > near["sinusoidal"] + 0.03).all()
    assert (far["sinusoidal"] > far["alibi"] + 0.05).all()


def test_a_whole_run_leaves_tables_and_pictures_and_shows_learned_positions_as_absent(tmp_path):
    small = ["model.width=16", "model.layers=1", "model.heads=2", "kinds=('learned',)"]
    short = ["train.steps=2", "train.length=16", "longest=32"]
    arguments = [f"--config.{x}" for x in (*small, *short)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", *arguments]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result) == {"permuted", "shifts", "losses", "refusals"}
    assert result["refusals"] == {"learned": "32 tokens, but the model has 16 positions"}
    assert [x is None for x in result["losses"][0].values()] == [False, False, True]
    assert {"lengths.png", "sinusoids.png", "config.json"} <= {x.name for x in tmp_path.iterdir()}
    assert "learned: absent beyond 16: 32 tokens, but the model has 16" in out.getvalue()


def test_what_is_out_of_range_is_told_in_a_line(tmp_path):
    for argument, message in {
        "--config.kinds=('sines',)": "positions must be one of",
        "--config.longest=32": "longest of at least that",
        "--config.train.steps=0": "train.steps of at least 2",
    }.items():
        with contextlib.redirect_stderr(io.StringIO()) as err:
            assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", argument]) == 2
        assert message in err.getvalue()
