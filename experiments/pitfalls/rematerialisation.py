"""Memory against time: what a gradient keeps of the way there, and what it computes again.

Reverse mode keeps every block's activations, all weights of dense attention among them, until it
comes back. ``jax.checkpoint`` keeps a block's input and computes the rest a second time; a policy says
what else is kept; blockwise attention never had its weights to keep.
"""

import functools
import time
from typing import Any

import jax
import numpy as np

from attn_jax import Rule, attend, masks
from experiments.descent import normal
from experiments.pitfalls.config import Config, Rematerialisation
from experiments.results import Row

PRODUCTS = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
WAYS: dict[str, tuple[str, Any]] = {
    "all kept": ("dense", lambda block: block),
    "blockwise attention": ("blockwise", lambda block: block),
    "remat, products of weights kept": (
        "dense",
        functools.partial(jax.checkpoint, policy=PRODUCTS),
    ),
    "remat": ("dense", jax.checkpoint),
}


def block(x: jax.Array, weights: Any, heads: int, backend: str) -> jax.Array:
    """Causal attention and a feed-forward network, each beside its residual: `t m`."""
    q, k, v = (a.reshape(len(x), heads, -1) for a in x @ weights["qkv"])
    y = attend(q, k, v, rule=Rule(mask=masks.causal()), backend=backend)
    x = x + y.reshape(x.shape) @ weights["o"]
    return x + jax.nn.gelu(x @ weights["in"]) @ weights["out"]


def gradient(section: Rematerialisation, way: str, layers: int) -> tuple[Any, tuple[Any, ...]]:
    """The compiled gradient of a stack in all its parameters, and what to call it with."""
    backend, wrap = WAYS[way]
    m, n = section.width, layers
    shapes = {"qkv": (n, 3, m, m), "o": (n, m, m), "in": (n, m, 4 * m), "out": (n, 4 * m, m)}
    rngs = jax.random.split(jax.random.key(0), 1 + len(shapes))
    weights = {name: normal(r, *shape) / 2 for r, (name, shape) in zip(rngs[1:], shapes.items())}
    x = jax.random.normal(rngs[0], (section.tokens, m))

    def f(weights: Any, x: jax.Array) -> jax.Array:
        step = wrap(lambda x, w: (block(x, w, section.heads, backend), None))
        return jax.lax.scan(step, x, weights)[0].sum()

    return jax.jit(jax.grad(f)).lower(weights, x).compile(), (weights, x)


def rematerialisation(config: Config) -> list[Row]:
    """Planned memory, and operations and measured time beside those of "all kept".

    Operations are the compiler's count, which sees the layers' loops, forward and backward, once each.
    """
    section, rows = config.rematerialisation, list[Row]()
    for layers in section.layers:
        programs = {way: gradient(section, way, layers) for way in WAYS}
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(section.repeats):
            for way, (compiled, arguments) in programs.items():
                began = time.perf_counter()
                jax.block_until_ready(compiled(*arguments))
                seconds[way].append(time.perf_counter() - began)
        kept, operations = np.array(seconds["all kept"]), _operations(programs["all kept"][0])
        for way, (compiled, _) in programs.items():
            rows.append(
                {
                    "way": way,
                    "layers": layers,
                    "memory, MiB": compiled.memory_analysis().temp_size_in_bytes / 2**20,
                    "operations": _operations(compiled) / operations,
                    "time": float(np.median(np.array(seconds[way]) / kept)),
                }
            )
    return rows


def _operations(compiled: Any) -> float:
    return compiled.cost_analysis()["flops"]
