"""A Transformer on eight simulated devices: the same numbers on every mesh, and what moves for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

MESHES = ["data 8", "fsdp 8", "data 2, fsdp 2, tensor 2", "data 2, tensor 2, context 2"]
WIDTH, HIDDEN, VOCABULARY = 48, 96, 64  # as in meshes.py


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What tests/train/meshes.py found: arrays and facts."""
    directory = tmp_path_factory.mktemp("meshes")
    script = Path(__file__).with_name("meshes.py")
    environment = os.environ | {"PYTHONPATH": str(script.parents[2])}
    subprocess.run([sys.executable, script, directory], env=environment, check=True)
    return np.load(directory / "arrays.npz"), json.loads((directory / "facts.json").read_text())


def gathered(facts, mesh):
    return {
        shape
        for kind, shapes in facts[mesh]["collectives"]
        if kind != "all-reduce"
        for shape in shapes
    }


@pytest.mark.parametrize("mesh", [*MESHES, "data 4, tensor 2"])
def test_losses_gradients_and_outputs_are_those_of_one_device(found, mesh):
    """Dropout is on: another draw would change the third digit of a loss, not the seventh."""
    arrays, _ = found
    one, many = (
        {kind: arrays[f"{name}: {kind}"] for kind in ("losses", "gradient", "outputs")}
        for name in ("one device", mesh)
    )
    np.testing.assert_allclose(many["losses"], one["losses"], rtol=1e-5)
    largest = np.abs(one["gradient"]).max()
    np.testing.assert_allclose(many["gradient"], one["gradient"], rtol=0, atol=1e-5 * largest)
    np.testing.assert_allclose(many["outputs"], one["outputs"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("mesh", MESHES)
def test_no_step_holds_an_activation_of_the_whole_batch_on_one_device(found, mesh):
    _, facts = found
    assert facts["one device"]["of the whole batch"]  # the question can be answered with yes
    assert facts[mesh]["of the whole batch"] == []
    assert facts[mesh]["stays"]  # each array where the step before had it


def test_rows_and_lengths_are_shared_out(found):
    _, facts = found
    tokens = {mesh: facts[mesh]["tokens of a device"] for mesh in MESHES}
    assert tokens == dict(zip(MESHES, ([5, 10], [5, 10], [10, 10], [20, 5])))


def test_fsdp_shares_out_every_large_parameter_and_its_moments(found):
    _, facts = found
    memory = facts["memory"]
    assert set(memory["parts of large leaves"].values()) == {8}
    kinds = ("params", "mu", "nu", "ema")
    assert all(any(kind in path for path in memory["parts of large leaves"]) for kind in kinds)
    # What the program is given is an eighth, but for norms and biases; all of the state is donated.
    assert memory["whole"] / 8 < memory["arguments"] < 1.25 * memory["whole"] / 8
    assert memory["aliased"] > 0.98 * memory["arguments"]


def test_fsdp_gathers_weights_and_nothing_else(found):
    _, facts = found
    kernels = {(WIDTH, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH), (VOCABULARY, WIDTH)}
    assert gathered(facts, "fsdp 8") == {",".join(map(str, kernel)) for kernel in kernels}


def test_tensor_parallelism_reduces_and_gathers_nothing(found):
    _, facts = found
    assert gathered(facts, "data 4, tensor 2") == set()
    reduced = {s for _, shapes in facts["data 4, tensor 2"]["collectives"] for s in shapes}
    assert {f"10,10,{WIDTH}", f"10,14,{WIDTH}"} <= reduced  # what the parts of a product add up to
    halves = {f"{WIDTH},{WIDTH // 2}", f"{WIDTH // 2},{WIDTH}", f"{VOCABULARY // 2},{WIDTH}"}
    whole = {f"{WIDTH},{WIDTH}"}  # half of a feed-forward kernel; a whole one is wider
    assert halves <= gathered(facts, "data 2, fsdp 2, tensor 2") <= halves | whole


def test_context_gathers_keys_and_values_of_a_devices_heads_and_no_weight(found):
    _, facts = found
    shapes = {tuple(map(int, s.split(","))) for s in gathered(facts, "data 2, tensor 2, context 2")}
    assert all(shape[0] == 20 for shape in shapes)
    assert {(20, 10, 3, 8), (20, 14, 3, 8)} <= shapes


def test_evaluation_is_that_of_one_device(found):
    _, facts = found
    one, many = (facts[name]["evaluation"] for name in ("one device", MESHES[2]))
    assert many == pytest.approx(one, rel=1e-5)


@pytest.mark.parametrize("mesh", ["one device", "fsdp 8", "data 2, tensor 2, context 2"])
def test_what_eight_devices_saved_any_mesh_restores(found, mesh):  # T7
    assert found[1][mesh]["restored"]
