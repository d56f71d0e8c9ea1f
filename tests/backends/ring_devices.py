"""Run by ring_test.py in a process of its own, which has eight simulated devices.

Arguments: names of cases, all by default. Prints what it found of each as JSON.
"""

import os

if __name__ == "__main__":
    # On a busy machine simulated devices wait long for each other: no reason to give up.
    os.environ["XLA_FLAGS"] = (
        "--xla_force_host_platform_device_count=8 "
        "--xla_cpu_collective_call_warn_stuck_timeout_seconds=300 "
        "--xla_cpu_collective_call_terminate_timeout_seconds=600"
    )
    os.environ["JAX_PLATFORMS"] = "cpu"

import collections
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
    Positions,
    Rule,
    attend,
    attend_with_lse,
    backends,
    biases,
    explain,
    features,
    masks,
    normalizers,
    patterns,
    scores,
    transforms,
)
from attn_jax.backends.dispatch import choose
from attn_jax.backends.problem import describe

B, T, H, G, D, E = 2, 32, 4, 2, 4, 3
AXES = ("data", "tensor", "context")
RNG = jax.random.key(9)
CASES = {}


def case(function):
    CASES[function.__name__] = function


def mesh_of(*sizes):
    devices = np.array(jax.devices()[: np.prod(sizes)]).reshape(sizes)
    return jax.sharding.Mesh(devices, AXES, axis_types=(AxisType.Auto,) * 3)


def drawn(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def arrays(t=T, s=T, batch=(B,), h=H, g=G):
    return drawn(*batch, t, h, D, seed=1), drawn(*batch, s, g, D, seed=2), drawn(*batch, s, g, E)


def waves(x):
    return jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape)


def outcome(backend, x, rule, **options):
    """Output, log-sum-exp where there is one, and the gradients of q, k, v and the rule's numbers."""
    leaves, structure = jax.tree.flatten(rule)
    smooth = [n for n, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    def run(x, numbers):
        filled = list(leaves)
        for n, number in zip(smooth, numbers, strict=True):
            filled[n] = number
        filled = jax.tree.unflatten(structure, filled)
        door = attend_with_lse if isinstance(rule.normalizer, normalizers.softmax) else attend
        return door(*x, rule=filled, backend=backend, **options)

    def both_ways(x, numbers):
        out, pull = jax.vjp(run, x, numbers)
        cotangents = jax.tree.map(lambda y: jnp.where(jnp.isfinite(y), waves(y), 0), out)
        return out, pull(cotangents)

    return jax.jit(both_ways), (x, [leaves[n] for n in smooth])


def difference(a, b):
    """The largest difference, in units of the largest number of each array."""
    worst = 0.0
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        finite = np.isfinite(y)
        if (x[~finite] != y[~finite]).any() or not np.isfinite(x[finite]).all():
            return float("inf")
        x, y = x[finite], y[finite]
        worst = max(worst, np.abs(x - y).max(initial=0) / max(1, np.abs(y).max(initial=0)))
    return float(worst)


def against_dense(backend, x, rule, mesh=None, spec=None, **options):
    function, arguments = outcome("dense", x, rule, **options)
    expected = function(*arguments)
    function, arguments = outcome(backend, x, rule, **options)
    if mesh is None:
        return {"difference": difference(function(*arguments), expected)}
    with jax.set_mesh(mesh):
        sharding = NamedSharding(mesh, spec)
        arguments = jax.device_put(arguments[0], sharding), arguments[1]
        compiled = function.lower(*arguments).compile()
        found = compiled(*arguments)
        program = compiled.as_text()
    return {
        "difference": difference(found, expected),
        "gathers": len(re.findall(r" (?:all-gather|all-to-all)(?:-start)?\(", program)),
        "sharded": [x.sharding.is_equivalent_to(sharding, 4) for x in (found[0][0], *found[1][0])],
    }


@case
def every_axis():
    """Rows over data, heads over tensor, the sequence over context; each stays where it is."""
    rule = Rule(
        scores.scaled_dot(jnp.abs(drawn(H)) + 0.5),
        biases.alibi(H),
        mask=masks.causal() & masks.valid(np.arange(T) % 7 > 0),
        normalizer=normalizers.softmax(drawn(H)),
    )
    spec = P("data", "context", "tensor")
    backend = backends.ring(tile=(6, 5))
    dropout = Dropout(0.3, RNG)
    return against_dense(backend, arrays(), rule, mesh_of(2, 2, 2), spec, dropout=dropout)


@case
def zigzag():
    """Ids, lengths and dropout in zigzag order, over eight devices, by the name of the axis."""
    ids = jnp.asarray(np.sort(np.random.default_rng(0).integers(-1, 3, (B, T))))
    mask = masks.causal() & masks.segments(ids) & masks.lengths(jnp.array([T, 21]))
    rule = Rule(scores.gaussian(1.5), mask=mask)
    backend = backends.ring("context", order="zigzag", tile=(2, 2))
    dropout = Dropout(0.3, RNG)
    return against_dense(
        backend, arrays(), rule, mesh_of(1, 1, 8), P(None, "context"), dropout=dropout
    )


@case
def arrays_of_pairs():
    """A bias and a mask of queries × keys, and a number that a function closes over."""
    x = arrays()
    explicit = masks.explicit(drawn(B, 1, T, T, seed=6) > -0.5) | masks.global_tokens(
        keys=jnp.arange(T) < 2
    )
    backend = backends.ring(order="zigzag", tile=(3, 4))

    def gradients(backend):
        def loss(x, table, stretch):
            rule = Rule(
                bias=biases.dense(table) + biases.dense(table[:, :1]),
                transform=lambda s, i, j: transforms.soft_cap(3.0)(s * stretch, i, j),
                mask=masks.window(13, 6) & explicit,
            )
            y = attend(*x, rule=rule, backend=backend)
            return (y * waves(y)).sum()

        return jax.jit(jax.value_and_grad(loss, (0, 1, 2)))

    arguments = x, drawn(H, T, T, seed=7), jnp.float32(0.7)
    expected = gradients("dense")(*arguments)
    with jax.set_mesh(mesh_of(1, 1, 4)):
        return {"difference": difference(gradients(backend)(*arguments), expected)}


@case
def a_mesh_given():
    """Linear attention, with the mesh given and not set, and batch axes, two of them."""
    rule = Rule(
        scores.kernel(features.elu_plus_one()), mask=masks.causal(-1), normalizer=normalizers.l1()
    )
    backend = backends.ring(mesh=mesh_of(1, 1, 4), tile=(3, 8))
    return against_dense(backend, arrays(batch=(2, 1)), rule)


@case
def sigmoid():
    rule = Rule(
        mask=patterns.longformer(6, np.arange(T) % 11 == 0),
        normalizer=normalizers.sigmoid(drawn(H)),
    )
    return against_dense(backends.ring(mesh=mesh_of(1, 1, 2), order="zigzag"), arrays(), rule)


@case
def prepared_keys():
    """Additive attention to a longer memory, prepared beforehand; the last query at the last key."""
    q, k, v = arrays(t=8, s=T)
    mesh = mesh_of(1, 1, 4)

    def gradients(backend, **options):
        def loss(q, k, v, w):
            rule = Rule(scores.additive(w, w, w[0]), mask=masks.causal(-3))
            memory = rule.prepare(k)
            y = attend(q, memory, v, rule=rule, positions="end", backend=backend)
            return (y * waves(y)).sum()

        return jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))

    arguments = q, k, v, drawn(D, 5, seed=4)
    expected = gradients("dense")(*arguments)
    with jax.set_mesh(mesh):
        return {"difference": difference(gradients("ring")(*arguments), expected)}


@case
def inside_shard_map():
    """On a device's part of everything: ids, positions said by a word, keys and values."""
    mesh = mesh_of(1, 1, 4)
    x = arrays(t=16)
    ids = jnp.asarray(np.sort(np.random.default_rng(1).integers(0, 3, (B, T))))

    def loss(backend, x, ids, slopes):
        # lengths count keys of the whole; a device's part of the ids is what it looks at
        mask = (
            masks.causal() & masks.segments(ids[:, 1::2], ids) & masks.lengths(jnp.array([30, 17]))
        )
        rule = Rule(bias=biases.alibi(slopes=slopes), mask=mask)
        dropout = Dropout(0.3, RNG)
        y = attend(*x, rule=rule, positions="end", dropout=dropout, backend=backend)
        return y, jnp.square(y)

    def gradients(run):
        def total(x, slopes):
            y, squares = run(x, ids, slopes)
            return (squares * waves(y)).sum(), y

        return jax.jit(jax.grad(total, (0, 1), has_aux=True))(x, jnp.linspace(0.1, 0.4, H))

    along = P(None, "context")

    def on_devices(check):
        return jax.shard_map(
            lambda *a: loss(backends.ring(order="zigzag", tile=(2, 3)), *a),
            mesh=mesh,
            in_specs=(along, along, P()),
            out_specs=along,
            check_vma=check,
        )

    expected = gradients(lambda *a: loss("dense", *a))
    found = [gradients(on_devices(check)) for check in (True, False)]
    return {"difference": max(difference(one, expected) for one in found)}


@case
def blockwise_on_devices_that_skip_different_tiles():
    """Rows over data, packed differently, with slopes that all of them learn."""
    mesh = jax.make_mesh((2,), ("data",), (AxisType.Auto,), devices=jax.devices()[:2])
    ids = jnp.stack([jnp.zeros(T, int), jnp.arange(T) // 4])

    def run(backend, x, ids, slopes):
        rule = Rule(bias=biases.alibi(slopes=slopes), mask=masks.segments(ids))
        return attend(*x, rule=rule, backend=backend)

    def gradients(run):
        def loss(x, slopes):
            return (jnp.square(run(x, ids, slopes)) * waves(x[0][..., :E])).sum()

        return jax.jit(jax.grad(loss, (0, 1)))(arrays(), jnp.linspace(0.1, 0.4, H))

    rows = P("data")
    on_devices = jax.shard_map(
        lambda *a: run(backends.blockwise(tile=(8, 8)), *a),
        mesh=mesh,
        in_specs=(rows, rows, P()),
        out_specs=rows,
    )
    expected = gradients(lambda *a: run("dense", *a))
    return {"difference": difference(gradients(on_devices), expected)}


@case
def traced_positions():
    """Unsorted positions that only run time knows; what nobody may see is NaN."""
    order = jnp.asarray(np.random.default_rng(3).permutation(T))
    hidden = (order > 25)[:, None, None]
    q, k, v = arrays(batch=())
    x = q, jnp.where(hidden, jnp.nan, k), jnp.where(hidden, jnp.inf, v)
    rule = Rule(scores.bilinear(drawn(D, D)), mask=masks.causal() & masks.band(None, -2))
    rule = rule & masks.prefix(26)
    at = Positions(order, order)
    return against_dense(backends.ring(mesh=mesh_of(1, 1, 4)), x, rule, positions=at)


@case
def other_derivatives():
    """Forward mode, second order, and under vmap with a mapped number in the rule."""
    x, backend = arrays(t=8, s=8), backends.ring(mesh=mesh_of(1, 1, 2), tile=(2, 2))

    def loss(backend, slope, x):
        y, lse = attend_with_lse(
            *x, rule=Rule(bias=biases.alibi(slopes=slope), mask=masks.causal()), backend=backend
        )
        return (jnp.square(y) * waves(y)).sum() + lse.sum()

    def all_of(backend):
        def curvature(slope, x):
            inner = jax.grad(lambda s, x: loss(backend, s, x), (0, 1))
            return jax.jvp(inner, (slope, x), (slope, x))

        return jax.jit(jax.vmap(curvature, (0, None)))(jnp.array([0.1, 0.5]), x)

    return {"difference": difference(all_of(backend), all_of("dense"))}


def looked(backend, rule):
    """How often each part of 4 queries met a part of 4 keys: (first query, first key) and a count."""
    seen = collections.Counter()

    def watch(s, i, j):
        jax.debug.callback(lambda i, j: seen.update([(int(i), int(j))]), i.min(), j.min())
        return s

    x = arrays(batch=(1,))
    watched = Rule(mask=rule.mask, transform=watch, transform_reads_positions=True)
    jax.block_until_ready(jax.jit(lambda x: attend(*x, rule=watched, backend=backend))(x))
    jax.effects_barrier()
    return [[*where, n] for where, n in sorted(seen.items())]


@case
def causal_hops():
    """Which parts are computed at all, by the transform, which is called for nothing else."""
    mesh = jax.make_mesh((4,), ("context",), (AxisType.Auto,), devices=jax.devices()[:4])
    rule = Rule(mask=masks.causal())
    return {
        order: looked(backends.ring(order=order, mesh=mesh, tile=(4, 4)), rule)
        for order in ("contiguous", "zigzag")
    }


@case
def window_hops():
    """How many blocks are sent: what explain says, and how many collectives the program has."""
    with jax.set_mesh(mesh_of(1, 1, 8)):
        said = {
            name: explain(*arrays(), rule=Rule(mask=mask))["ring"].reason
            for name, mask in {
                "causal": masks.causal(),
                "window": masks.window(5, 0),
                "neighbours": masks.window(4, 3),
                "packed": masks.segments(np.arange(T) // 8),
                "at run time": masks.segments(jnp.arange(T) // 8),
            }.items()
        }

        def permutes(mask):
            run = jax.jit(lambda *x: attend(*x, rule=Rule(mask=mask), backend="ring"))
            return len(re.findall("collective_permute", run.lower(*arrays()).as_text()))

        x = arrays()
        return {
            "said": said,
            "auto": choose("auto", describe(*x, Rule())).name,
            "causal": permutes(masks.causal()),
            "window": permutes(masks.window(5, 0)),
            "own": permutes(masks.same_block(4)),
        }


if __name__ == "__main__":
    found = {name: CASES[name]() for name in sys.argv[1:] or CASES}
    json.dump(found, sys.stdout)
