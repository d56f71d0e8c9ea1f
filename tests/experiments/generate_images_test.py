"""What the generation of images claims, on shortened runs, for three seeds."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from attn_jax.data.images import Images
from experiments.generate_images.__main__ import main
from experiments.generate_images.baselines import histogram_bits
from experiments.generate_images.config import Config, Model, Training, rule
from experiments.generate_images.method import (
    bits,
    compare,
    complete,
    draw_on,
    learn,
    losses,
    nearest,
    pictures,
    shades,
)

CONFIG = Path(__file__).parents[2] / "configs/generate_images/default.py"
RNG = np.random.default_rng(0)
TINY = Config(
    seeds=(0, 1),
    model=Model(colours=3, width=8, heads=2, layers=1),
    train=Training(steps=2, rows=4),
)
SHORT = Config(model=Model(width=32, layers=2), train=Training(steps=300, rows=32, rate=1e-2))


def random_images(n):
    pixels = RNG.integers(0, 17, (n, 4, 3, 1)).astype(np.uint8)
    return Images(pixels, (np.arange(n) % 2).astype(np.int32), 16)


@pytest.fixture(scope="module")
def tiny():
    return learn("strided", TINY, random_images(6))


@pytest.mark.slow
def test_strided_attention_knows_more_of_digits_than_dense_and_both_more_than_counting():
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    images = SHORT.data.load()
    known, models, _ = compare(SHORT, images)
    counted = {row["what knows the images"]: row["bits"] for row in known}
    last = counted["histogram given the last"]
    assert last < counted["histogram of each place"] < np.log2(17)
    tokens = shades(images.test, SHORT.model.colours)
    dense, strided = (bits(models[pattern], tokens).mean(1) for pattern in ("dense", "strided"))
    assert (strided < dense).all()
    assert (dense < last - 0.03).all()
    taken, wholes = complete(SHORT, images, models)
    share = {row["lower half"]: row["taken for what it was"] for row in taken}
    for pattern, whole in wholes.items():
        np.testing.assert_array_equal(whole[:, :32], tokens[:, :32])
        assert share["white"] + 0.03 < share[f"Image GPT, {pattern}"] < share["as it was"] - 0.2


@pytest.mark.slow
def test_bits_are_those_of_the_shades_given_the_ones_before(tiny):
    tokens = shades(random_images(5), 3)
    found = bits(tiny, tokens)
    for seed in range(2):
        model = tiny.model(tiny.of(seed))
        logits = np.asarray(model(model.started(tokens)), np.float64)
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        expected = -np.log2(np.take_along_axis(p, tokens[..., None], -1)).mean((0, 2))
        np.testing.assert_allclose(found[seed], expected, rtol=1e-4)


@pytest.mark.slow
def test_what_is_given_is_kept_and_what_is_drawn_depends_on_the_seed_alone(tiny):
    begun = shades(random_images(40), 3)[:, :6]
    one, two = (draw_on(tiny, TINY, begun, 12, seed) for seed in (0, 1))
    np.testing.assert_array_equal(one[:, :6], begun)
    assert one.shape == (40, 12)
    assert set(np.unique(one)) <= {0, 1, 2}
    np.testing.assert_array_equal(one, draw_on(tiny, TINY, begun, 12, 0))
    assert (one != two).any()
    assert draw_on(tiny, TINY, np.zeros((3, 0), np.int32), 12).shape == (3, 12)


@pytest.mark.slow
def test_shades_are_drawn_as_often_as_the_model_says(tiny):
    begun = np.repeat(shades(random_images(1), 3)[:, :11], 2_000, 0)
    drawn = draw_on(tiny, TINY, begun, 12)[:, -1]
    model = tiny.model(tiny.of(0))
    candidates = np.concatenate([begun[:3], np.arange(3)[:, None]], 1)
    p = np.exp(-np.asarray(losses(model, candidates))[:, -1])
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 2_000, p, atol=0.05)


def test_strided_attention_sees_the_last_row_and_what_is_above():
    mask = np.asarray(rule("strided", 3).mask.dense(12, 12)).reshape(12, 12)
    for i in range(12):
        seen = {j for j in range(i + 1) if i - j <= 3 or (i - j) % 3 == 0}
        assert set(np.flatnonzero(mask[i])) == seen


@pytest.mark.parametrize("given_last", [False, True])
def test_histograms_are_their_formula(given_last):
    train, heldout = RNG.integers(0, 3, (7, 4)), RNG.integers(0, 3, (5, 4))
    total = 0.0
    for row in heldout:
        for place, c in enumerate(row):
            column = list(train[:, place])
            p = (column.count(c) + 1) / (len(column) + 3)
            if given_last:
                before = row[place - 1] if place else 0
                same = [x for x, y in zip(column, train[:, place - 1]) if y == before]
                same = same if place else column
                if same:
                    p = (same.count(c) + len(set(same)) * p) / (len(same) + len(set(same)))
            total -= np.log2(p)
    assert histogram_bits(train, heldout, 3, given_last) == pytest.approx(total / heldout.size)


def test_shades_and_pictures_are_each_others_inverse_and_the_nearest_is_nearest():
    images = random_images(6)
    tokens = shades(images, 17)
    np.testing.assert_array_equal(tokens, images.pixels.reshape(6, -1))
    np.testing.assert_allclose(pictures(tokens, (4, 3, 1), 17), images.scaled)
    other = shades(random_images(9), 17)
    distances = np.square(tokens[:, None].astype(int) - other[None]).sum(-1)
    np.testing.assert_array_equal(nearest(tokens, other), distances.argmin(-1))


@pytest.mark.slow
def test_a_whole_run_leaves_tables_and_pictures(tmp_path):
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    small = ["model.width=8", "model.heads=2", "model.layers=1", "seeds=(0,)", "samples=2"]
    short = ["train.steps=2", "train.rows=2", "patterns=('strided',)", "model.colours=4"]
    arguments = [f"--config.{x}" for x in (*small, *short)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", *arguments]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result) == {"bits", "completions", "places"}
    assert len(result["places"]["strided"]) == 64
    assert {"samples.png", "completions.png", "bits.png"} <= {x.name for x in tmp_path.iterdir()}
    assert str(tmp_path / "samples.png") in out.getvalue()


def test_what_is_out_of_range_is_told_in_a_line(tmp_path):
    for argument, message in {
        "--config.patterns=('sparse',)": "patterns among dense, strided; got 'sparse'",
        "--config.model.colours=1": "model.colours from 2 to 256",
        "--config.train.steps=1": "train.steps of at least 2",
        "--config.data.name=mnist": "tfds build mnist",
        "--config.model.dropout=1.5": "model.dropout in [0, 1)",
    }.items():
        where = f"--config.data.directory={tmp_path}"
        with contextlib.redirect_stderr(io.StringIO()) as err:
            assert main([f"--config={CONFIG}", f"--workdir={tmp_path}", where, argument]) == 2
        assert message in err.getvalue()
