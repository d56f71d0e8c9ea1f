"""Time and memory of attention and its gradients against length."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax import attend
from experiments.long_context.config import Costs
from experiments.long_context.mechanisms import Mechanism, mechanisms
from experiments.results import Row


def program(mechanism: Mechanism, x: jax.Array) -> Any:
    """The compiled derivatives of a sum of squared outputs in queries, keys and values, each like x."""
    rule, backend = mechanism

    def f(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.square(attend(q, k, v, rule=rule, backend=backend)).sum()

    return jax.jit(jax.grad(f, (0, 1, 2))).lower(x, x, x).compile()


def measured(section: Costs, n: int) -> list[Row]:
    """Every mechanism at one length: the memory planned, and median seconds where it was run."""
    x = jax.random.normal(jax.random.key(0), (n, 1, section.depth))
    given = mechanisms(n, section.window, section.depth, section.features)
    programs = {name: program(mechanism, x) for name, mechanism in given.items()}
    seconds: dict[str, list[float]] = {
        name: [] for name in programs if name != "dense" or n <= section.dense
    }
    for _ in range(section.repeats):
        for name, taken in seconds.items():
            if sum(taken) <= section.patience:
                began = time.perf_counter()
                jax.block_until_ready(programs[name](x, x, x))
                taken.append(time.perf_counter() - began)
    return [
        {
            "mechanism": name,
            "n": n,
            "memory, MiB": compiled.memory_analysis().temp_size_in_bytes / 2**20,
            "seconds": float(np.median(seconds[name])) if name in seconds else None,
        }
        for name, compiled in programs.items()
    ]


def costs(section: Costs) -> list[Row]:
    """Every mechanism at every length."""
    return [row for n in section.lengths for row in measured(section, n)]
