"""Run by meshes_test.py in a process of its own: a Transformer's steps on eight simulated devices."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import json
import re
import sys
from pathlib import Path

import jax
import numpy as np
import optax
from flax import nnx

from attn_jax import train
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.logical_axes import LOGICAL_AXES

# No product of these and of what is left of them on a device is the number of rows by chance.
ROWS, SOURCE, TARGET, VOCABULARY, HEADS = 40, 14, 10, 64, 6
MESHES = {
    "one device": {"data": 1},
    "data 8": {"data": 8},
    "fsdp 8": {"fsdp": 8},
    "data 2, fsdp 2, tensor 2": {"data": 2, "fsdp": 2, "tensor": 2},
    "data 2, tensor 2, context 2": {"data": 2, "tensor": 2, "context": 2},
    "data 4, tensor 2": {"data": 4, "tensor": 2},
}

blocks = BlockOptions(
    width=48, hidden=96, heads=HEADS, dropout=0.3, attention_dropout=0.2, activation_dropout=0.1
)
sizes = TransformerConfig(VOCABULARY, None, 1, 1, blocks)
graph, params, rest = nnx.split(Transformer(sizes, rngs=nnx.Rngs(0)), nnx.Param, ...)


def logits(params, batch, rngs=None):
    return nnx.merge(graph, params, rest)(batch["source"], batch["inputs"], rng=rngs)


def loss(params, batch, rngs):
    return train.cross_entropy(logits(params, batch, rngs), batch["labels"])


def batch(number):
    random = np.random.default_rng(number)
    shapes = {"source": (ROWS, SOURCE), "inputs": (ROWS, TARGET), "labels": (ROWS, TARGET)}
    tokens = {name: random.integers(4, VOCABULARY, shape) for name, shape in shapes.items()}
    ends = random.integers(1, SOURCE, ROWS)
    lengths = {"source": ends, "inputs": ends, "labels": ends}
    real = {name: np.arange(shapes[name][1]) < lengths[name][:, None] for name in shapes}
    padded = {name: np.where(real[name], x, 0).astype(np.int32) for name, x in tokens.items()}
    return padded | {"index": np.arange(ROWS, dtype=np.int32) + number * ROWS}


def layout_of(axes):
    devices = jax.devices()[: int(np.prod(list(axes.values())))]
    return train.Layout(train.device_mesh(devices, **({"data": 1} | axes)), LOGICAL_AXES)


def numbers(tree):
    return np.concatenate([np.ravel(np.asarray(x)) for x in jax.tree.leaves(tree)])


def collectives(program):
    """What the collectives of a compiled program do, and the shapes that come of it."""
    for line in program.splitlines():
        if found := re.search(
            r" = (.*) ([a-z-]+?)(-start)?\(.*(replica_groups|source_target)", line
        ):
            yield found[2], re.findall(r"\w+\[([\d,]*)\]", found[1])


def of_the_whole_batch(program):
    """Every shape in a compiled program that has all rows, or all their tokens, as an axis."""
    shapes = set(re.findall(r"\w+\[(\d[\d,]*)\]", program))
    whole = {str(ROWS * length) for length in (1, SOURCE, TARGET)}
    return sorted(shape for shape in shapes if whole & set(shape.split(",")))


def bytes_of(arrays):
    return sum(x.nbytes for x in arrays)


directory = Path(sys.argv[1])
optimizer = optax.sgd(0.1, momentum=0.0)  # whose state is the last gradient
state = train.State.create(params, optimizer, jax.random.key(3))
outputs = jax.jit(logits)
arrays, facts, after = {}, {}, {}
for name, axes in MESHES.items():
    layout = layout_of(axes)
    step = train.make_step(loss, optimizer, layout)
    now, first = step.place(state), layout.place_batch(batch(0))
    update = step.update.lower(now, first).compile()
    losses = []
    for n in range(10):
        now, metrics = update(now, layout.place_batch(batch(n)))
        losses.append(float(metrics["sums"]["loss"]))
        if n == 0:
            arrays[f"{name}: gradient"] = numbers(now.opt_state[0].trace)
    after[name] = now
    arrays[f"{name}: losses"] = np.array(losses)
    arrays[f"{name}: outputs"] = np.asarray(outputs(jax.device_get(now.params), batch(99)))
    facts[name] = {
        "stays": [x.sharding for x in jax.tree.leaves(now)]
        == jax.tree.leaves(layout.shardings(now)),
        "collectives": list(collectives(update.as_text())),
        "of the whole batch": of_the_whole_batch(update.as_text()),
        "tokens of a device": first["inputs"].addressable_data(0).shape,
    }

# The loss of a validation set, on every axis and on none.
for name in ("one device", "data 2, fsdp 2, tensor 2"):
    evaluate = train.make_evaluate(loss, layout_of(MESHES[name]))
    facts[name]["evaluation"] = evaluate(after["one device"].params, [batch(50), batch(51)])

# Saved where fsdp shares everything out, restored onto other meshes.
with train.Checkpoints(directory / "checkpoints", train.Retention()) as checkpoints:
    checkpoints.save(after["fsdp 8"], {})
with train.Checkpoints(directory / "checkpoints") as checkpoints:
    for name in ("one device", "fsdp 8", "data 2, tensor 2, context 2"):
        restored, _ = checkpoints.newest(layout_of(MESHES[name]).place(state))
        leaves, saved = jax.tree.leaves(restored), jax.tree.leaves(after["fsdp 8"])
        facts[name]["restored"] = all(
            bool((jax.device_get(one) == jax.device_get(two)).all())
            for one, two in zip(leaves, saved, strict=True)
        )

# What a device holds of a whole Adam state.
layout = layout_of({"fsdp": 8})
adam = train.adamw(train.constant(1e-3, 1))
whole = train.State.create(params, adam, jax.random.key(3), ema=True)
step = train.make_step(loss, adam, layout)
placed = step.place(whole)
compiled = step.update.lower(placed, layout.place_batch(batch(0))).compile()
large = {
    jax.tree_util.keystr(path): x.size // x.addressable_data(0).size
    for path, x in jax.tree_util.tree_leaves_with_path(placed)
    if x.size >= 1024
}
facts["memory"] = {
    "parts of large leaves": large,
    "whole": bytes_of(jax.tree.leaves((whole.params, whole.opt_state, whole.ema))),
    "arguments": compiled.memory_analysis().argument_size_in_bytes,
    "aliased": compiled.memory_analysis().alias_size_in_bytes,
}
np.savez(directory / "arrays.npz", **arrays)
(directory / "facts.json").write_text(json.dumps(facts))
