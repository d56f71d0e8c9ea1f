import json
import os
import subprocess
import sys
from pathlib import Path

import chex
import numpy as np
import pytest

from attn_jax.train.checkpoints import Checkpoints
from attn_jax.train.sharding import pad_rows

ROOT = Path(__file__).parents[2]


def test_padding_rows_are_zeros_with_index_minus_one():
    batch = {"labels": np.ones((3, 2), np.int32), "index": np.arange(3, dtype=np.int32)}
    padded = pad_rows(batch, 4)
    chex.assert_trees_all_equal(padded["index"], np.array([0, 1, 2, -1], np.int32))
    assert not padded["labels"][3].any()
    assert padded["labels"].dtype == np.int32
    assert pad_rows(batch, 3) is batch


def test_a_batch_that_is_none_is_refused():
    with pytest.raises(ValueError, match="`index`"):
        pad_rows({"labels": np.ones((3, 2))}, 4)
    with pytest.raises(ValueError, match="same number of rows"):
        pad_rows({"labels": np.ones((3, 2)), "index": np.ones(2)}, 4)


@pytest.fixture(scope="module")
def eight_devices(tmp_path_factory):
    """What tests/train/devices.py found on eight simulated devices."""
    directory = tmp_path_factory.mktemp("devices")
    script = Path(__file__).with_name("devices.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, script, directory], env=environment, check=True)
    return directory


@pytest.mark.slow
def test_a_mesh_changes_neither_losses_nor_gradients_nor_draws(eight_devices):
    runs = json.loads((eight_devices / "meshes.json").read_text())
    one = runs.pop("1")
    for devices, run in runs.items():
        np.testing.assert_allclose(run["losses"], one["losses"], rtol=1e-5, err_msg=devices)
        np.testing.assert_allclose(run["norms"], one["norms"], rtol=1e-5, err_msg=devices)


@pytest.mark.slow
def test_two_devices_divide_by_the_global_count(eight_devices):  # T10
    found = json.loads((eight_devices / "counts.json").read_text())
    np.testing.assert_allclose(found["two devices"], found["one device"], rtol=1e-6)
    assert abs(found["mean of means"] - found["one device"]) > 1e-2


@pytest.mark.slow
def test_saved_on_eight_devices_loaded_on_one(eight_devices, tiny):  # T7
    with Checkpoints(eight_devices / "checkpoints") as checkpoints:
        state, _ = checkpoints.newest(tiny.state())
    saved = np.load(eight_devices / "embedding.npy")
    np.testing.assert_array_equal(state.params["embedding"], saved)
    assert len(state.params["embedding"].devices()) == 1
