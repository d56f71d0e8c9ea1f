"""The sequence over several devices: the same numbers as on one, and no more than a part on each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh

from attn_jax import Rule, attend, backends, biases, explain, masks, normalizers
from attn_jax.backends.problem import describe
from attn_jax.functional.mask import Mask

ROOT = Path(__file__).parents[2]
EIGHT = backends.ring(mesh=AbstractMesh((8,), ("context",)))
EXACT = ["every_axis", "zigzag", "arrays_of_pairs", "a_mesh_given", "sigmoid", "prepared_keys"]
EXACT += ["inside_shard_map", "traced_positions", "other_derivatives"]
EXACT += ["blockwise_on_devices_that_skip_different_tiles"]


def run(script, *arguments):
    """What a script beside this file prints, in a process that has its own devices."""
    command = [sys.executable, Path(__file__).with_name(script), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def devices():
    """What ring_devices.py found on eight simulated devices."""
    return run("ring_devices.py")


def refusal(rule, backend=EIGHT, t=16, s=16):
    q, k = np.zeros((t, 2, 4), np.float32), np.zeros((s, 2, 4), np.float32)
    with pytest.raises(ValueError, match="the ring backend refuses: ") as raised:
        attend(q, k, k, rule=rule, positions="end", backend=backend)
    return str(raised.value).removeprefix("the ring backend refuses: ")


def test_what_it_refuses_it_explains():
    assert "no mesh with an axis 'sequence'" in refusal(Rule(), backends.ring("sequence"))
    assert "use the dense backend" in refusal(Rule(normalizer=normalizers.sparsemax()))
    assert "t = 12 is no multiple of 8" in refusal(Rule(), t=12)
    assert "s = 24 is no multiple of 16" in refusal(Rule(), EIGHT.replace(order="zigzag"), s=24)
    with pytest.raises(ValueError, match=r'"contiguous" or "zigzag", got \'spiral\''):
        backends.ring(order="spiral")

    class mine(Mask):
        flags: jax.Array

    assert "whether the arrays of mine" in refusal(Rule(mask=mine(jnp.ones(16))))


def test_auto_leaves_it_alone_without_a_mesh():
    x = jnp.zeros((4, 1, 2))
    assert not explain(x, x, x)["ring"].accepts
    assert attend(x, x, x).shape == x.shape


def test_a_mask_says_what_runs_along_queries_and_keys():
    """That the list of kinds of mask and bias is whole: every public one is understood."""
    flags = np.ones(16, bool)
    kinds = {
        "band": masks.band(-1, 1), "causal": masks.causal(), "diagonal": masks.diagonal(),
        "everything": masks.everything(), "explicit": masks.explicit(flags[:, None] & flags),
        "global_tokens": masks.global_tokens(flags), "lengths": masks.lengths(3),
        "per_head": masks.per_head([masks.causal(), masks.valid(flags)]),
        "prefix": masks.prefix(2), "same_block": masks.same_block(2),
        "segments": masks.segments(flags.astype(int)), "stride": masks.stride(2),
        "valid": masks.valid(flags), "where": masks.where(lambda i, j: i > j),
        "window": masks.window(1, 1),
    }  # fmt: skip
    assert kinds.keys() == set(masks.__all__) - {"Mask"}
    bias = biases.alibi(2) + biases.dense(np.zeros((16, 16), np.float32))
    x = np.zeros((16, 2, 4), np.float32)
    for mask in kinds.values():
        rule = Rule(bias=bias, mask=~mask ^ masks.causal())
        assert EIGHT.refuses(describe(x, x, x, rule)) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_values_and_all_gradients_are_those_of_dense(devices, name):
    assert devices[name]["difference"] < 5e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["every_axis", "zigzag"])
def test_no_array_is_gathered_and_gradients_stay_sharded(devices, name):
    assert devices[name]["gathers"] == 0
    assert all(devices[name]["sharded"])


@pytest.mark.slow
@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
def test_only_what_somebody_sees_is_computed_once(devices, order):
    """Of 8 × 8 parts of a causal mask over four devices, the 36 that are not all False."""
    parts = [[4 * i, 4 * j, 1] for i in range(8) for j in range(i + 1)]
    assert devices["causal_hops"][order] == parts


@pytest.mark.slow
def test_blocks_that_no_device_looks_at_are_not_sent(devices):
    found = devices["window_hops"]
    assert found["auto"] == "ring"
    assert found["own"] == 0 < found["window"] < found["causal"]
    said = {name: int(text.split()[-1]) for name, text in found["said"].items()}
    assert said == {"causal": 8, "window": 3, "neighbours": 3, "packed": 3, "at run time": 8}


@pytest.mark.slow
def test_a_language_model_trains_as_on_one_device():
    one, eight = (run("ring_training.py", n, 4096, 3)["losses"] for n in (1, 8))
    np.testing.assert_allclose(eight, one, rtol=1e-5)
    assert one[2] < one[1] < one[0]


@pytest.mark.slow
def test_a_sequence_of_65536_tokens_an_eighth_on_each_of_eight_devices():
    """Three steps of training; what a device holds, as the compiler planned it."""
    one, eight = run("ring_training.py", 1, 65536, 0), run("ring_training.py", 8, 65536, 3)
    assert eight["losses"][2] < eight["losses"][1] < eight["losses"][0]
    assert eight["gathers"] == 0
    assert 8 * eight["longest"] == one["longest"] == 65536 * 128  # the feed-forward activations
    assert 8 * eight["temporaries"] < 1.05 * one["temporaries"]
