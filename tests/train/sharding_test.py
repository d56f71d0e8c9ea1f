import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import chex
import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.logical_axes import LOGICAL_AXES
from attn_jax.train.checkpoints import Checkpoints
from attn_jax.train.mesh import AXES, device_mesh
from attn_jax.train.optimizers import adafactor, adamw
from attn_jax.train.sharding import Layout, pad_rows

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


def mesh_of(data=1, fsdp=1, context=1, tensor=1):
    """A mesh that no devices are behind."""
    axes = AxisType.Auto
    return AbstractMesh((data, fsdp, context, tensor), AXES, axis_types=(axes,) * len(AXES))


def shapes_of(config, heads=4):
    blocks = BlockOptions(width=8, hidden=16, heads=heads)
    make = lambda: Transformer(config(blocks), rngs=nnx.Rngs(0))  # noqa: E731
    return nnx.state(nnx.eval_shape(make), nnx.Param)


def specs_of(layout, tree):
    paths = jax.tree_util.tree_leaves_with_path(layout.shardings(tree))
    return {jax.tree_util.keystr(path): sharding.spec for path, sharding in paths}


def test_a_parameters_name_says_where_it_and_its_moments_live():
    params = shapes_of(lambda blocks: TransformerConfig(12, None, 1, 1, blocks))
    state = {"params": params, "optimizer": jax.eval_shape(adamw(lambda n: 0.1).init, params)}
    specs = specs_of(Layout(mesh_of(data=2, fsdp=2, tensor=2), LOGICAL_AXES), state)
    inner = "['encoder'][0]['feed_forward']['inner']"
    out = "['decoder'][0]['cross_attention']['out']"
    value = "['decoder'][0]['self_attention']['value']"
    for where in ("['params']", "['optimizer'][0][0].mu", "['optimizer'][0][0].nu"):
        assert specs[f"{where}{inner}['kernel'].value"] == P("fsdp", "tensor")
        assert specs[f"{where}{inner}['bias'].value"] == P("tensor")
        assert specs[f"{where}{out}['kernel'].value"] == P("tensor", "fsdp")
        assert specs[f"{where}{out}['bias'].value"] == P()
        assert specs[f"{where}{value}['kernel'].value"] == P("fsdp", "tensor")
        assert specs[f"{where}['source_embedding']['table'].value"] == P("tensor", "fsdp")
    assert specs["['optimizer'][0][0].count"] == P()


def test_axes_of_one_part_are_not_spelt_and_a_vocabulary_may_be_odd():
    params = shapes_of(lambda blocks: TransformerConfig(11, None, 1, 0, blocks))
    specs = specs_of(Layout(mesh_of(tensor=2), LOGICAL_AXES), params)
    assert specs["['source_embedding']['table'].value"] == P()
    assert specs["['encoder'][0]['feed_forward']['inner']['kernel'].value"] == P(None, "tensor")


def test_what_no_name_is_known_of_is_shared_out_along_its_longest_axis_that_goes():
    tree = {"a": np.ones((4, 6, 5)), "b": np.ones((3, 5)), "c": np.ones(8)}
    specs = specs_of(Layout(mesh_of(fsdp=2), LOGICAL_AXES), tree)
    assert specs == {"['a']": P(None, "fsdp"), "['b']": P(), "['c']": P()}


def test_factored_moments_stay_whole_where_they_have_other_axes():
    params = {"inner": {"kernel": np.ones((256, 512)), "bias": np.ones(512)}}
    state = jax.eval_shape(adafactor(lambda n: 0.1).init, params)
    layout = Layout(
        mesh_of(fsdp=2, tensor=2), {r"inner\.kernel": ("embed", "mlp"), "bias": ("mlp",)}
    )
    factored = {path: spec for path, spec in specs_of(layout, state).items() if ".v_" in path}
    assert len(factored) == 4
    assert set(factored.values()) == {P()}
    assert specs_of(layout, params)["['inner']['kernel']"] == P("fsdp", "tensor")


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        (
            {"data": 3},
            "multiply to the 1 device there are, got data 3, fsdp 1, tensor 1, context 1",
        ),
        ({"fsdp": 2}, "multiply to the 1 device"),
        ({"fsdp": -1}, "at most one mesh axis of -1"),
        ({"tensor": 0}, "at least 1, or -1 for the rest"),
    ],
)
def test_a_mesh_that_the_devices_do_not_make_is_refused(sizes, parts):
    with pytest.raises(ValueError, match=parts):
        device_mesh(jax.devices()[:1], **sizes)


def test_a_size_that_the_mesh_cannot_share_out_is_named():
    layout = Layout(mesh_of(data=2, tensor=4), LOGICAL_AXES)
    layout.check("heads", 8, "model.heads")
    with pytest.raises(ValueError, match=r"divide model\.heads: `heads` is 6, .* by tensor 4"):
        layout.check("heads", 6, "model.heads")
    params = {"feed_forward": {"inner": {"kernel": np.ones((8, 6))}}}
    with pytest.raises(ValueError, match=r"feed_forward\.inner\.kernel: `mlp` is 6"):
        layout.shardings(params)


def test_lengths_are_cut_where_the_context_divides_them():
    layout = Layout(mesh_of(data=2, fsdp=2, context=2))
    assert layout.of_rows((8, 6)).spec == P(("data", "fsdp"), "context")
    assert layout.of_rows((8, 5)).spec == P(("data", "fsdp"))
    assert layout.of_rows((8,)).spec == P(("data", "fsdp"))
    assert layout.rows == 4


class Device(NamedTuple):
    process_index: int


@pytest.mark.parametrize(
    ("shape", "processes", "share"),
    [
        ((4, 1, 1, 2), [0, 0, 0, 0, 1, 1, 1, 1], (0, 2)),
        ((1, 2, 1, 4), [1, 1, 1, 1, 0, 0, 0, 0], (1, 2)),  # in whatever order they stand
        ((4, 1, 1, 2), [0, 0, 1, 1, 0, 0, 1, 1], (0, 2)),  # or alternate
        ((1, 1, 1, 8), [0, 0, 0, 0, 1, 1, 1, 1], (0, 1)),  # tensor spans both: the same rows
        ((2, 1, 1, 4), [0, 0, 1, 1, 2, 2, 3, 3], (0, 2)),
        ((8, 1, 1, 1), [0, 0, 0, 0, 0, 0, 1, 1], None),
        ((2, 1, 1, 3), [0, 0, 1, 1, 2, 2], None),
    ],
)
def test_hosts_share_the_rows_that_their_devices_hold(shape, processes, share):
    devices = np.empty(len(processes), object)
    devices[:] = [Device(process) for process in processes]
    layout = Layout(SimpleNamespace(devices=devices.reshape(shape), shape=dict(zip(AXES, shape))))
    if share:
        assert layout.share == share
        return
    with pytest.raises(ValueError, match="equally many rows"):
        assert layout.share


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
