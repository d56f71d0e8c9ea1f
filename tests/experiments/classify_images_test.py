"""What the classification of images claims, on shortened runs, for three seeds."""

import contextlib
import io
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx

from attn_jax.data.images import Images
from attn_jax.diagnostics.paths import rollout
from attn_jax.models.vit import ViT
from experiments.classify_images.__main__ import main
from experiments.classify_images.config import Config, Data, Training
from experiments.classify_images.learning import Learner, seconds_per_step
from experiments.classify_images.method import by_class, from_class_token, judge, learners
from experiments.classify_images.networks import NETWORKS, Sizes
from experiments.command_line import load

ROOT = Path(__file__).parents[2] / "configs/classify_images"
SEEDS = (0, 1, 2)
RNG = np.random.default_rng(0)


def striped(n, side=4):
    """Images whose class is whether their stripes lie or stand."""
    labels = RNG.integers(0, 2, n).astype(np.int32)
    stripes = np.zeros((side, side), np.uint8)
    stripes[::2] = 12
    pixels = np.stack([stripes.T if label else stripes for label in labels])
    return Images(
        pixels[..., None] + RNG.integers(0, 5, (n, side, side, 1)).astype(np.uint8), labels, 16
    )


def learner(name, steps=20, images=None):
    sizes = Sizes(width=4, depths=(1, 1), reduction=2, vit_width=8, vit_layers=1, vit_heads=2)
    make = NETWORKS[name](sizes, (4, 4, 1), 2)
    return Learner(make, images or striped(64), Training(rows=16, steps=steps, rate=2e-2))


@pytest.mark.slow
def test_convolutions_read_the_digits_where_patches_have_only_begun_to():
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    config = Config(networks=("ViT", "plain", "CBAM"), train=Training(steps=150))
    images = config.data.load()
    accuracy = {
        name: judge(config, one, config.train.steps, images.test)[0].accuracy
        for name, one in learners(config, images).items()
    }
    for name in ("plain", "CBAM"):
        assert (accuracy[name] > 0.96).all()
        assert (accuracy[name] > accuracy["ViT"] + 0.02).all()


@pytest.mark.slow
def test_gates_cost_few_parameters_and_those_of_the_last_stage_the_most():
    shape = (8, 8, 1)

    def size(name):
        model = nnx.eval_shape(
            lambda: NETWORKS[name](Sizes(depths=(1, 1, 1)), shape, 10)(nnx.Rngs(0))
        )
        return sum(x.size for x in jax.tree.leaves(nnx.state(model, nnx.Param)))

    sizes = {name: size(name) for name in NETWORKS}
    for gate in ("SE", "CBAM"):
        added = {
            where: sizes[f"{gate}{where}"] - sizes["plain"] for where in ("", " early", " late")
        }
        assert 0 < added[" early"] < added[" late"] < added[""] < 0.06 * sizes["plain"]
    assert sizes["CBAM in parallel"] == sizes["CBAM"]
    assert 0.8 < sizes["dynamic"] / sizes["wide"] < 1.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "ViT"])
def test_what_was_learned_depends_on_seed_and_steps_alone_and_tells_images_apart(name):
    one = learner(name)
    first, again, other = (one.train(seed, 20) for seed in (0, 0, 1))
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    leaves = zip(jax.tree.leaves(first.params), jax.tree.leaves(other.params), strict=True)
    assert any((np.asarray(a) != np.asarray(b)).any() for a, b in leaves)
    test = striped(40)
    accuracy, loss = one.judge(first, test)
    logits = np.asarray(one.model(first)(test.scaled), np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert accuracy == pytest.approx((logits.argmax(-1) == test.labels).mean())
    assert loss == pytest.approx(-np.log(shares[np.arange(40), test.labels]).mean(), rel=1e-4)
    assert accuracy > 0.9
    assert all(seconds > 0 for seconds in seconds_per_step([one]))


@pytest.mark.slow
def test_rollout_from_the_class_token_is_a_share_for_each_patch():
    one = learner("ViT")
    images, model = striped(3), one.model(one.begin(0))
    found = from_class_token(model, images)
    maps = jax.jit(lambda x: ViT.attention_maps(model, x))(images.scaled)
    expected = np.asarray(rollout(maps))[:, 0, 1:]
    np.testing.assert_allclose(found.reshape(3, -1), expected, atol=1e-6)
    assert ((found.sum((1, 2)) > 0) & (found.sum((1, 2)) < 1)).all()


def test_weights_by_class_are_means_over_its_images():
    weights, labels = RNG.random((6, 1, 1, 3)), np.array([1, 0, 1, 1, 0, 0])
    expected = [weights[[1, 4, 5], 0, 0].mean(0), weights[[0, 2, 3], 0, 0].mean(0)]
    np.testing.assert_allclose(by_class(weights, labels), expected)


@pytest.mark.slow
def test_a_whole_run_leaves_tables_and_pictures(tmp_path):
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    short = [
        "seeds=(0,)",
        "train.steps=1",
        "train.seconds=1e-9",
        "networks=('ViT','SE','CBAM late')",
    ]
    small = ["sizes.vit_width=8", "sizes.vit_layers=1", "sizes.width=4", "sizes.depths=(1,)"]
    arguments = [f"--config.{x}" for x in (*short, *small)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([f"--config={ROOT}/digits.py", f"--workdir={tmp_path}", *arguments]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    for table in ("steps", "time"):
        assert [row["network"] for row in result[table]] == ["ViT", "SE", "CBAM late"]
    pictures = {"rollout.png", "places_CBAM_late.png", "channels_SE.png"}
    assert pictures <= {x.name for x in tmp_path.iterdir()}
    assert str(tmp_path / "rollout.png") in out.getvalue()


def test_what_is_out_of_range_is_told_in_a_line(tmp_path):
    for argument, message in {
        "--config.networks=('VGG',)": "networks among ViT, Swin, plain",
        "--config.train.rows=1": "train.rows of at least 2",
        "--config.train.rate=0.0": "a positive train.rate",
        "--config.data.name=mnist": "tfds build mnist",
    }.items():
        where = f"--config.data.directory={tmp_path}"
        with contextlib.redirect_stderr(io.StringIO()) as err:
            assert (
                main([f"--config={ROOT}/digits.py", f"--workdir={tmp_path}", where, argument]) == 2
            )
        assert message in err.getvalue()


def test_configs_are_what_they_say():
    assert load(f"{ROOT}/digits.py") == Config()
    gates = load(f"{ROOT}/gates.py").checked()
    assert gates.data == Data(examples=300)
    assert set(gates.networks) == set(NETWORKS) - {"ViT", "Swin"}
