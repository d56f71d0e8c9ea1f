"""Arrays sharded over rows and heads: what one device computes, and nothing sent but what is summed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # a process of its own

ROOT = Path(__file__).parents[2]
BACKENDS = ["dense", "blockwise", "linear", "fused"]


@pytest.fixture(scope="module")
def eight_devices():
    """What tests/backends/devices.py found on eight simulated devices."""
    script = Path(__file__).with_name("devices.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, script], env=environment, check=True, capture_output=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize("how", ["", ", mapped"], ids=["jit", "shard_map"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_and_heads_on_eight_devices(eight_devices, backend, how):
    found = eight_devices[backend + how]
    assert found["difference"] < 1e-5
    assert found["in parts"]
    assert found["moved"] == []


def test_dropout_is_the_draw_of_one_device(eight_devices):
    found = eight_devices["blockwise, dropout"]
    assert found["difference"] < 1e-5
    assert found["moved"] == []


def test_what_must_move_is_noticed(eight_devices):
    """Values cut along the keys have to be brought together: the check above can fail."""
    found = eight_devices["cut along the keys"]
    assert found["difference"] < 1e-5
    assert found["moved"]
