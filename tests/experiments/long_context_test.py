"""What long contexts cost, and what is found in them, on a shortened run, for three seeds."""

import contextlib
import io
import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, masks
from experiments.long_context import __main__ as program
from experiments.long_context.config import Config, Reach
from experiments.long_context.mechanisms import Mechanism, mechanisms
from experiments.long_context.reach import begin, model, reaches, seen, sequences

CONFIG = Path(__file__).parents[2] / "configs/long_context/default.py"
SHORT = (
    "costs.lengths=(1024,4096)",
    "costs.repeats=1",
    "reach.length=32",
    "reach.window=2",
    "reach.distances=(2,4,12,19,30)",
    "reach.steps=300",
    "estimate.features=(64,256)",
    "estimate.sizes=(0.25,1.0)",
)


class Ran(NamedTuple):
    workdir: Path
    printed: str
    result: dict
    by_seed: dict


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Ran:
    """The whole program, shortened, and what it holds of each seed."""
    workdir, run, kept = tmp_path_factory.mktemp("long_context"), program.run, []

    def keeping(config):
        kept.append(run(config))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(program, "run", keeping)
        arguments = [f"--config.{each}" for each in SHORT]
        assert program.main([f"--config={CONFIG}", f"--workdir={workdir}", *arguments]) == 0
    return Ran(workdir, out.getvalue(), *kept[0])


@pytest.mark.slow
def test_only_dense_attention_takes_memory_by_the_square_of_the_length(ran):
    rows = {(row["mechanism"], row["n"]): row for row in ran.result["costs"]}
    for name in dict.fromkeys(name for name, _ in rows):
        short, long = (rows[name, n]["memory, MiB"] for n in (1024, 4096))
        assert (15 < long / short < 17) if name == "dense" else (long / short < 6), name


@pytest.mark.slow
def test_an_answer_is_found_where_the_mask_leads_and_nowhere_else(ran):
    found = ran.by_seed["reach"]
    for key, (led, accuracy) in found.items():
        assert accuracy.shape == (3, 5)
        assert (accuracy[:, led] > 0.8).all(), (key, accuracy)
        assert (accuracy[:, ~led] < 0.5).all(), (key, accuracy)
    led = {key: each.reaches.tolist() for key, each in found.items()}
    assert led["local window", 1] == [True, False, False, False, False]
    assert led["local window", 2] == [True, True, False, False, False]
    for name in ("Longformer", "BigBird", "strided"):
        assert not all(led[name, 1])
        assert all(led[name, 2])
    for name in ("dense", "Linear Transformer", "Performer"):
        assert all(led[name, 1])


@pytest.mark.slow
def test_more_features_and_orthogonal_ones_err_less_where_scores_are_small(ran):
    errors = ran.by_seed["estimate"]
    for name in ("independent", "orthogonal"):
        few, many = errors[name, 0.25].T
        np.testing.assert_allclose(few / many, 2, rtol=0.15)  # as 1/√f
        assert (errors[name, 1.0] > 1).all()
    assert (errors["orthogonal", 0.25] < 0.93 * errors["independent", 0.25]).all()


@pytest.mark.slow
def test_a_whole_run_leaves_tables_and_pictures(ran):
    result = json.loads((ran.workdir / "result.json").read_text())
    assert result == ran.result
    assert len(result["costs"]) == 16
    assert len(result["reach"]) == 14
    left = {path.name for path in ran.workdir.iterdir()}
    assert left == {"config.json", "result.json", "long-context.png", "features.png"}
    assert "Answers found at a distance; guessing finds 0.25" in ran.printed


@pytest.mark.slow
def test_a_mask_leads_where_an_untrained_model_depends_on_its_input():
    n, section = 24, Reach(length=24, width=8)
    base = jax.random.randint(jax.random.key(0), (n,), 0, section.classes)
    changed = (base + section.classes * jnp.eye(n, dtype=int))[::-1]  # by distance from the last

    @jax.jit
    def depends(rule, weights):
        logits = model(weights, Mechanism(rule, "dense"), jnp.concatenate([base[None], changed]))
        return jnp.abs(logits[1:] - logits[0]).max(-1) > 1e-6

    for layers in (1, 2, 3):
        weights = begin(section, layers, seed=layers)
        for name, mechanism in mechanisms(n, 2, section.width, 4).items():
            mask = seen(mechanism, n)
            led = reaches(mask, layers)
            found = depends(Rule(mask=masks.explicit(mask)), weights)
            np.testing.assert_array_equal(found, led, err_msg=f"{name}, {layers} layers")


def test_the_answer_is_what_the_marked_token_says():
    section = Reach(length=9, classes=3)
    distance = jnp.array([[1, 8], [4, 2]])
    tokens, answers = map(np.asarray, sequences(section, distance, jax.random.key(0)))
    assert (tokens[..., -1] == 6).all()
    assert ((tokens >= 3).sum(-1) == 2).all()  # the marked one and the question
    for at in np.ndindex(2, 2):
        assert tokens[at][8 - distance[at]] == 3 + answers[at]


def test_what_is_out_of_range_is_told_in_a_line(tmp_path):
    for argument, message in {
        "reach.distances=(3,64)": "expected reach.distances from 1 to 63",
        "reach.layers=(0,)": "expected reach.layers of at least 1, got (0,)",
        "costs.lengths=()": "expected costs.lengths of at least 1, got ()",
        "estimate.sizes=(0.0,)": "estimate.sizes of more than 0",
    }.items():
        arguments = [f"--config={CONFIG}", f"--workdir={tmp_path}", f"--config.{argument}"]
        with contextlib.redirect_stderr(io.StringIO()) as err:
            assert program.main(arguments) == 2
        assert message in err.getvalue()
    assert Config().checked() == Config()
