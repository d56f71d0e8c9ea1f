"""Run by ring_test.py in a process of its own: a causal language model on one long sequence.

Arguments: the number of devices, the length, the number of steps. Two layers of width 64, nothing of
which is longer than a device's part of the sequence. Prints what it found as JSON.
"""

import os
import sys

if __name__ == "__main__":
    devices, length, steps = map(int, sys.argv[1:])
    # On a busy machine simulated devices wait long for each other: no reason to give up.
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={devices} "
        "--xla_cpu_collective_call_warn_stuck_timeout_seconds=300 "
        "--xla_cpu_collective_call_terminate_timeout_seconds=600"
    )
    os.environ["JAX_PLATFORMS"] = "cpu"

import itertools
import json
import math
import re
import time

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from attn_jax import Rule, attend, backends, biases, masks

WIDTH, DEPTH, VOCABULARY, LAYERS = 64, 16, 32, 2
RULE = Rule(bias=biases.alibi(1), mask=masks.causal())


def parameters():
    shapes = {"query": DEPTH, "key": DEPTH, "value": DEPTH, "grow": 2 * WIDTH}
    back = {"out": DEPTH, "shrink": 2 * WIDTH}
    rngs = iter(jax.random.split(jax.random.key(0), 99))

    def matrix(rows, columns):
        return jax.random.normal(next(rngs), (rows, columns)) / rows**0.5

    layers = [
        {name: matrix(WIDTH, n) for name, n in shapes.items()}
        | {name: matrix(n, WIDTH) for name, n in back.items()}
        for _ in range(LAYERS)
    ]
    return {"embedding": matrix(VOCABULARY, WIDTH), "layers": layers}


def normed(x):
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)


def loss(params, tokens, targets, backend):
    """Mean cross-entropy of each next token; tokens and targets `t`."""
    x = params["embedding"][tokens]  # t m
    for layer in params["layers"]:
        m = normed(x)
        q, k, v = (m @ layer[name] for name in ("query", "key", "value"))
        y = attend(q[:, None], k[:, None], v[:, None], rule=RULE, backend=backend)
        x = x + y[:, 0] @ layer["out"]
        x = x + jax.nn.relu(normed(x) @ layer["grow"]) @ layer["shrink"]
    logits = jax.nn.log_softmax(normed(x) @ params["embedding"].T)
    return -jnp.take_along_axis(logits, targets[:, None], -1).mean()


def sequence(length):
    """Tokens and the tokens after them: each is a function of the two before it."""
    tokens = [3, 5]
    for n in range(length - 1):
        tokens.append((3 * tokens[-1] + tokens[-2] + n // 11) % VOCABULARY)
    return jnp.array(tokens[:-1]), jnp.array(tokens[1:])


def longest(program):
    """The largest number of elements of any array in a compiled program."""
    shapes = re.findall(r"\b(?:f32|s32|u32|pred)\[([\d,]+)\]", program)
    return max(math.prod(map(int, shape.split(","))) for shape in shapes)


def main():
    mesh = jax.make_mesh((devices,), ("context",), (AxisType.Auto,))
    backend = backends.ring(order="zigzag") if devices > 1 else backends.blockwise()
    tokens = jax.device_put(sequence(length), NamedSharding(mesh, P("context")))
    params = jax.device_put(parameters(), NamedSharding(mesh, P()))

    def step(params, tokens, targets):
        value, gradient = jax.value_and_grad(loss)(params, tokens, targets, backend)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value

    clock = [time.perf_counter()]
    with jax.set_mesh(mesh):
        compiled = jax.jit(step, donate_argnums=0).lower(params, *tokens).compile()
        clock.append(time.perf_counter())
        losses = []
        for _ in range(steps):
            params, value = compiled(params, *tokens)
            losses.append(float(value))
            clock.append(time.perf_counter())
    program = compiled.as_text()
    found = {
        "losses": losses,
        "longest": longest(program),
        "gathers": len(re.findall(r" (?:all-gather|all-to-all)(?:-start)?\(", program)),
        "temporaries": compiled.memory_analysis().temp_size_in_bytes,
        "seconds": [b - a for a, b in itertools.pairwise(clock)],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
