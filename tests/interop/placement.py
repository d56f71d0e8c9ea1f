"""Run by placement_test.py in a process of its own: loading onto eight simulated devices."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attn_jax import interop, train
from attn_jax.interop import checkpoint
from attn_jax.modules.logical_axes import LOGICAL_AXES

directory = Path(sys.argv[1])
read, largest = checkpoint.Checkpoint.read, {}


def watched(self, name, index=None):
    array = read(self, name, index)
    largest[name] = max(largest.get(name, 0), array.size)
    return array


checkpoint.Checkpoint.read = watched
mesh = jax.make_mesh(
    (2, 1, 1, 4), ("fsdp", "data", "context", "tensor"), (jax.sharding.AxisType.Auto,) * 4
)
spread = interop.load(directory, place=train.Layout(mesh, LOGICAL_AXES).shardings)
assert largest["transformer.h.0.attn.c_attn.weight"] == 8 * 8 // 8
assert largest["transformer.h.0.mlp.c_proj.weight"] == 12 * 8 // 8
whole = interop.load(directory)
for a, b in zip(jax.tree.leaves(nnx.state(spread)), jax.tree.leaves(nnx.state(whole)), strict=True):
    np.testing.assert_array_equal(a, b)
assert len(spread.layers[0].self_attention.query.kernel[...].devices()) == 8
logits = jax.jit(lambda model, ids: nnx.merge(*model)(ids))(nnx.split(spread), jnp.arange(10)[None])
np.testing.assert_allclose(logits, whole(jnp.arange(10)[None]), atol=1e-4)
print("placed")
