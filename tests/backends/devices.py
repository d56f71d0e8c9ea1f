"""Run by sharding_test.py in a process of its own, which has eight simulated devices."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import functools
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from attn_jax import (
    Dropout,
    Rule,
    attend,
    attend_with_lse,
    backends,
    biases,
    features,
    masks,
    normalizers,
    scores,
)

B, T, H, G, D, E = 4, 24, 8, 4, 6, 5
MESH = jax.make_mesh((2, 4), ("data", "heads"), (AxisType.Auto,) * 2)
ROWS = P("data", None, "heads", None)
IDS = jnp.sort(jax.random.randint(jax.random.key(1), (B, T), 0, 3), -1)
BACKENDS = {
    "dense": backends.dense(),
    "blockwise": backends.blockwise(tile=(8, 8)),
    "linear": backends.linear(),
    "fused": backends.fused("xla"),
}
COLLECTIVES = r" (all-gather|all-to-all|collective-permute)(?:-start)?\("


def rule_of(name, slopes, ids):
    mask = masks.segments(ids) & masks.window(9, 0)
    if name == "linear":
        score = scores.kernel(features.favor(jax.random.key(0), D, 8))
        return Rule(score, mask=masks.causal(), normalizer=normalizers.l1())
    return Rule(scores.gaussian(1.5), biases.alibi(slopes=slopes), mask=mask)


def both_ways(name, dropout, q, k, v, slopes, ids, cotangent):
    """Output, log-sum-exp where there is one, and gradients; of all rows and heads, or of some."""

    def run(q, k, v, slopes):
        rule, backend = rule_of(name, slopes, ids), BACKENDS[name]
        if name == "linear":
            return attend(q, k, v, rule=rule, backend=backend), jnp.ones_like(q[..., 0].mT)
        return attend_with_lse(q, k, v, rule=rule, dropout=dropout, backend=backend)

    (y, lse), pull = jax.vjp(run, q, k, v, slopes)
    return y, lse, pull((cotangent, lse))


def draw(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


arguments = (
    draw(0, B, T, H, D), draw(1, B, T, G, D), draw(2, B, T, G, E),
    jnp.linspace(0.1, 0.4, H), IDS, draw(3, B, T, H, E),
)  # fmt: skip
specs = (ROWS, ROWS, ROWS, P("heads"), P("data", None), ROWS)
shardings = tuple(NamedSharding(MESH, spec) for spec in specs)
out_specs = (ROWS, P("data", "heads", None), (ROWS, ROWS, ROWS, P("heads")))


def difference(a, b):
    """The largest difference, in parts of the largest number of the same array."""

    def of_one(x, y):
        return float(np.abs(np.asarray(x) - np.asarray(y)).max() / np.abs(y).max())

    return max(map(of_one, jax.tree.leaves(a), jax.tree.leaves(b)))


found = {}


def compare(label, function, alone, shardings=shardings):
    compiled = jax.jit(function, in_shardings=shardings).lower(*arguments).compile()
    together = compiled(*jax.device_put(arguments, shardings))
    found[label] = {
        "difference": difference(together, alone),
        "moved": re.findall(COLLECTIVES, compiled.as_text()),
        "in parts": together[0].addressable_shards[0].data.shape == (B // 2, T, H // 4, E),
    }


for name in BACKENDS:
    function = functools.partial(both_ways, name, None)
    alone = jax.jit(function)(*arguments)
    compare(name, function, alone)
    mapped = jax.shard_map(function, mesh=MESH, in_specs=specs, out_specs=out_specs)
    compare(f"{name}, mapped", mapped, alone)

function = functools.partial(both_ways, "blockwise", Dropout(0.3, jax.random.key(5)))
alone = jax.jit(functools.partial(both_ways, "dense", function.args[1]))(*arguments)
compare("blockwise, dropout", function, alone)
along_keys = NamedSharding(MESH, P(None, "data", "heads", None))
compare("cut along the keys", function, alone, (*shardings[:2], along_keys, *shardings[3:]))
json.dump(found, sys.stdout)
