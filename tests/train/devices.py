"""Run by sharding_test.py in a process of its own, which has eight simulated devices."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tiny

from attn_jax import train

directory = Path(sys.argv[1])
assert jax.device_count() == 8

runs = {}
for devices, accumulate in ((1, 1), (2, 1), (8, 1), (2, 2)):
    step = train.make_step(
        tiny.loss,
        tiny.optimizer(),
        train.data_mesh(jax.devices()[:devices]),
        accumulate=accumulate,
    )
    state, batches = step.place(tiny.state()), tiny.batches(rows=6)  # eight do not divide six
    losses, norms = [], []
    for _ in range(3):
        state, metrics = step(state, next(batches))
        losses.append(float(metrics["sums"]["loss"]))
        norms.append(float(metrics["gradient_norm"]))
    name = f"{devices}" if accumulate == 1 else f"{devices}, accumulating {accumulate}"
    runs[name] = {"losses": losses, "norms": norms}
    if devices == 8:
        assert len(state.params["embedding"].devices()) == 8
        with train.Checkpoints(directory / "checkpoints", train.Retention()) as checkpoints:
            checkpoints.save(state, {})
        np.save(directory / "embedding.npy", np.asarray(state.params["embedding"]))
(directory / "meshes.json").write_text(json.dumps(runs))

labels = np.array([[1, 2, 3, 4], [2, 0, 0, 0]], np.int32)
shift = np.random.default_rng(0).normal(size=(2, 4, 5)).astype(np.float32)


def loss(params, batch, rngs):
    return train.cross_entropy(params + batch["shift"], batch["labels"], smoothing=0.1)


def norm(devices, rows):
    batch = {"labels": labels[rows], "shift": shift[rows], "index": np.arange(2)[rows]}
    step = train.make_step(loss, optax.sgd(1.0), train.data_mesh(jax.devices()[:devices]))
    state = train.State.create(jnp.zeros(5), optax.sgd(1.0), jax.random.key(0))
    after, _ = step(step.place(state), batch)
    return np.asarray(after.params)[1]


both, first, second = slice(0, 2), slice(0, 1), slice(1, 2)
counts = {
    "one device": float(norm(1, both)),
    "two devices": float(norm(2, both)),
    "mean of means": float((norm(1, first) + norm(1, second)) / 2),
}
(directory / "counts.json").write_text(json.dumps(counts))
