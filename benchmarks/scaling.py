"""Weak scaling of a training step, read from the program that XLA makes for each number of devices.

    python -m benchmarks.scaling --devices 1 2 4 8 --out benchmarks/results/scaling

Each device keeps 16 rows; on each number of simulated devices the step is compiled, with the rows shared
by `data` and by `fsdp`. Nothing is timed, since simulated devices share the cores. Reported are what a
device computes, and what comes of its collectives, in bytes; beside them what theory says. Shared by
`data`, gradients are summed: as many bytes as there are of parameters. Shared by `fsdp`, parameters are
gathered for it besides, and gradients may be summed whole, which is what XLA does on CPUs, or scattered
as they are summed. An all-reduce of B bytes by a ring sends 2 B (n - 1) / n of them. Writes OUT.json and
OUT.md.
"""

from __future__ import annotations

import os

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"

import argparse
import collections
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx

from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.logical_axes import LOGICAL_AXES
from attn_jax.train import Layout, State, Sums, cross_entropy, device_mesh, make_step
from benchmarks.timing import markdown, versions, write

ROWS, LENGTH, VOCABULARY, WIDTH = 16, 32, 1024, 128
COLLECTIVE = re.compile(r" = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all)(?:-start)?\(")
BYTES = {"f32": 4, "s32": 4, "u32": 4, "pred": 1, "f16": 2, "bf16": 2}


def collectives(program: str) -> dict[str, dict[str, int]]:
    """What comes of a program's collectives on one device: by kind, how many arrays of each shape.

    >>> collectives("%x = (f32[2,3]{1,0}, s32[]) all-reduce(%y, %z), replica_groups={{0,1}}")
    {'all-reduce': {'f32[2,3]': 1, 's32[]': 1}}
    """
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for line in program.splitlines():
        if match := COLLECTIVE.search(line):
            found[match[2]].update(re.findall(r"\w+\[[\d,]*\]", match[1]))
    return {kind: dict(shapes) for kind, shapes in found.items()}


def bytes_of(shapes: Mapping[str, int]) -> int:
    """The bytes of arrays, given how many there are of each shape.

    >>> bytes_of({"f32[2,3]": 2, "s32[]": 1})
    52
    """
    total = 0
    for shape, count in shapes.items():
        dtype, axes = shape.rstrip("]").split("[")
        total += count * BYTES[dtype] * math.prod(int(n) for n in axes.split(",") if n)
    return total


def record(axis: str, devices: int) -> dict[str, Any]:
    """What a device does in a step."""
    blocks = BlockOptions(width=WIDTH, hidden=4 * WIDTH, heads=4, norm="pre")
    model = Transformer(TransformerConfig(VOCABULARY, None, 2, 2, blocks), rngs=nnx.Rngs(0))
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def loss(params: Any, batch: Any, rngs: Any) -> Sums:
        logits = nnx.merge(graph, params, rest)(batch["source"], batch["inputs"], rng=rngs)
        return cross_entropy(logits, batch["labels"])

    mesh = device_mesh(jax.devices()[:devices], **{"data": 1, axis: devices})
    layout, optimizer = Layout(mesh, LOGICAL_AXES), optax.adam(1e-3)
    step = make_step(loss, optimizer, layout)
    state = step.place(State.create(params, optimizer, jax.random.key(0)))
    tokens = np.ones((ROWS * devices, LENGTH), np.int32)
    batch = dict.fromkeys(("source", "inputs", "labels"), tokens)
    index = np.arange(ROWS * devices, dtype=np.int32)
    compiled = step.update.lower(state, layout.place_batch(batch | {"index": index})).compile()
    cost: Any = compiled.cost_analysis()
    return {
        "axis": axis,
        "devices": devices,
        "flops": cost["flops"],
        "state_bytes": compiled.memory_analysis().argument_size_in_bytes,
        "parameter_bytes": sum(x.nbytes for x in jax.tree.leaves(params)),
        "collectives": collectives(compiled.as_text()),
    }


def table(records: list[dict[str, Any]]) -> str:
    """The records as markdown."""
    size, alone = records[0]["parameter_bytes"] / 2**20, records[0]["flops"]
    columns = ["rows shared by", "devices", "GFLOP of a device", "÷ the first's"]
    columns += ["its state and batch", "all-reduced", "all-gathered", "theory: reduced, gathered"]
    lines = []
    for r in records:
        found = {kind: bytes_of(shapes) / 2**20 for kind, shapes in r["collectives"].items()}
        reduces, gathers = r["devices"] > 1, r["devices"] > 1 and r["axis"] == "fsdp"
        numbers = [r["flops"] / 1e9, r["flops"] / alone, r["state_bytes"] / 2**20]
        numbers += [found.get(kind, 0.0) for kind in ("all-reduce", "all-gather")]
        theory = f"{reduces * size:.2f}, {gathers * size:.2f}"
        cells = [f"{number:.3f}" for number in numbers]
        lines.append([r["axis"], str(r["devices"]), *cells, theory])
    header = (
        f"{ROWS} rows of {LENGTH} source and target tokens a device, "
        f"{size:.2f} MiB of parameters; MiB of a device"
    )
    return f"{header}\n\n{markdown(columns, lines)}"


def main() -> None:
    """Compiles, reads, and writes the table and the records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4, 8], help="8 at most")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/scaling"))
    options = parser.parse_args()
    records = [record(axis, n) for axis in ("data", "fsdp") for n in options.devices]
    write(options.out, versions("jax", "jaxlib"), records, table(records))


if __name__ == "__main__":
    main()
