"""Every derivative of every backend, of every kind of leaf, through closures, under jit and vmap.

The yardstick is the formula itself, written out below on the whole score matrix and differentiated by
JAX; no backend shares code with it.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend_with_lse, backends, biases, masks, normalizers, scores, transforms

pytestmark = pytest.mark.slow  # long compilations

T, S, H, G, D, E = 5, 7, 4, 2, 3, 2
BACKENDS = {
    "dense": backends.dense(),
    "blockwise": backends.blockwise(tile=(2, 3)),
    "fused": backends.fused("xla"),
}


class Inputs(NamedTuple):
    """All that the output depends on smoothly."""

    q: Any
    k: Any
    v: Any
    power: Any  # a leaf of the score
    slope: Any  # captured by the score's function
    table: Any  # a leaf of the bias
    cap: Any  # a leaf of the transform
    tilt: Any  # captured by the transform's function
    sink: Any  # a leaf of the normalizer, one per head
    reach: Any  # captured by the mask's function: moves nothing


def inputs(seed: int = 0) -> Inputs:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    return Inputs(
        normal(T, H, D), normal(S, G, D), normal(S, G, E), power=jnp.float32(0.7),
        slope=jnp.float32(0.4), table=normal(H, T, S), cap=jnp.float32(2.0),
        tilt=jnp.float32(0.2), sink=normal(H), reach=jnp.float32(3.5),
    )  # fmt: skip


def attention(x: Inputs, step: Any, backend: backends.Backend) -> tuple[Any, Any]:
    """Closures capture traced floats (slope, tilt, reach) and a traced integer (step)."""
    if backend.name == "fused":
        return attend_with_lse(
            x.q, x.k, x.v, rule=lifted(x, step), positions="start", backend=backend
        )
    cap = transforms.soft_cap(x.cap)
    rule = Rule(
        score=scores.pairwise(
            lambda q, k, *, power: power * (q * k).sum() - x.slope * jnp.square(q - k).sum(),
            power=x.power,
        ),
        bias=biases.dense(x.table),
        transform=lambda s, i, j: cap(s, i, j) + x.tilt * jnp.sin(s) * (i - j + step),
        mask=masks.where(lambda i, j: (abs(i - j) <= x.reach) & (j != step)) & masks.band(low=-2),
        normalizer=normalizers.softmax(sink=x.sink),
        transform_reads_positions=True,
    )
    return attend_with_lse(x.q, x.k, x.v, rule=rule, positions="start", backend=backend)


def lifted(x: Inputs, step: Any) -> Rule:
    """As much of it as an inner product can say: no function of single scores."""
    return Rule(
        score=scores.l2(x.power),
        bias=biases.dense(x.table),
        mask=masks.where(lambda i, j: (abs(i - j) <= x.reach) & (j != step)) & masks.band(low=-2),
        normalizer=normalizers.softmax(sink=x.sink),
    )


def formula(x: Inputs, step: Any, lifted: bool = False) -> tuple[Any, Any]:
    q, k, v = x.q[:, None], jnp.repeat(x.k, H // G, 1)[None], jnp.repeat(x.v, H // G, 1)
    inner, square = (q * k).sum(-1), jnp.square(q - k).sum(-1)
    s = -x.power * square if lifted else x.power * inner - x.slope * square
    s = s.transpose(2, 0, 1) + x.table
    i, j = jnp.arange(T)[:, None], jnp.arange(S)[None]
    if not lifted:
        s = x.cap * jnp.tanh(s / x.cap) + x.tilt * jnp.sin(s) * (i - j + step)
    seen = (abs(i - j) <= x.reach) & (j != step) & (i - j <= 2)
    s = jnp.where(seen, s, -jnp.inf)
    with_sink = jnp.concatenate([s, jnp.broadcast_to(x.sink[:, None, None], (H, T, 1))], -1)
    weights = jax.nn.softmax(with_sink, -1)[..., :-1]
    return jnp.einsum("hts,she->the", weights, v), jax.nn.logsumexp(with_sink, -1)


def scalar(function: Callable[..., Any]) -> Callable[..., Any]:
    """Curved in everything: second derivatives of outputs and of how they are used both count."""

    def value(x: Inputs, step: Any) -> Any:
        y, lse = function(x, step)
        return jnp.sin(y).sum() + jnp.square(y).sum() + jnp.tanh(lse).sum()

    return value


def derivatives(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Each takes (x, direction, step)."""
    value = scalar(function)
    gradient = jax.grad(value)

    def along(x: Inputs, direction: Inputs, step: Any) -> Any:
        pairs = zip(gradient(x, step), direction, strict=True)
        return sum(jnp.vdot(a, b) for a, b in pairs)

    def slope(x: Inputs, direction: Inputs, step: Any) -> Any:
        return jax.jvp(lambda x: value(x, step), (x,), (direction,))[1]

    return {
        "grad": lambda x, direction, step: (function(x, step), gradient(x, step)),
        "jvp": lambda x, direction, step: jax.jvp(lambda x: function(x, step), (x,), (direction,)),
        "reverse over reverse": jax.grad(along),
        "forward over reverse": lambda x, direction, step: jax.jvp(
            lambda x: gradient(x, step), (x,), (direction,)
        )[1],
        "reverse over forward": jax.grad(slope),
    }


ORDERS = list(derivatives(formula))
ARGUMENTS = inputs(0), inputs(1), 1


def formula_of(name: str) -> Callable[..., Any]:
    return functools.partial(formula, lifted=name == "fused")


@functools.cache
def expected(order: str, lifted: bool) -> Any:
    return jax.jit(derivatives(functools.partial(formula, lifted=lifted))[order])(*ARGUMENTS)


def agree(a: Any, b: Any, tolerance: float = 3e-4) -> None:
    chex.assert_trees_all_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", BACKENDS)
def test_derivatives_of_every_leaf_and_every_captured_array(name, order):
    mine = derivatives(lambda x, step: attention(x, step, BACKENDS[name]))[order]
    agree(jax.jit(mine)(*ARGUMENTS), expected(order, name == "fused"))


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", BACKENDS)
def test_derivatives_under_vmap(name, order):
    xs, directions = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(inputs, seeds))
        for seeds in ([0, 1, 2], [3, 4, 5])
    )
    arguments = xs, directions, jnp.arange(3)  # the captured integer is mapped too
    mine = derivatives(lambda x, step: attention(x, step, BACKENDS[name]))[order]
    yardstick = jax.jit(jax.vmap(derivatives(formula_of(name))[order]))(*arguments)
    agree(jax.jit(jax.vmap(mine))(*arguments), yardstick)


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKENDS)
def test_the_hessian(name):
    def pick(x):
        return (x.q[0], x.k[:2], x.table[0, 0], x.cap, x.sink, x.slope, x.tilt, x.power)

    def curvature(function):
        def f(some, x):
            q, k, row, cap, sink, slope, tilt, power = some
            x = x._replace(
                q=x.q.at[0].set(q), k=x.k.at[:2].set(k), table=x.table.at[0, 0].set(row), cap=cap,
                sink=sink, slope=slope, tilt=tilt, power=power,
            )  # fmt: skip
            return scalar(function)(x, 1)

        return jax.jit(jax.hessian(f))(pick(inputs(0)), inputs(0))

    agree(
        curvature(lambda x, step: attention(x, step, BACKENDS[name])), curvature(formula_of(name))
    )


@pytest.mark.parametrize("name", BACKENDS)
def test_an_array_captured_outside_the_differentiated_function_is_a_constant(name):
    """Only what is differentiated has a gradient, and mapping what is captured maps the result."""
    x = inputs(0)

    def of_query(q, captured):
        return scalar(lambda x, step: attention(x, step, BACKENDS[name]))(
            captured._replace(q=q), 1
        )  # fmt: skip

    stacked = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), x)
    mapped = jax.jit(jax.vmap(jax.grad(of_query), (None, 0)))(x.q, stacked)
    reference = jax.jit(
        jax.grad(lambda q, captured: scalar(formula_of(name))(captured._replace(q=q), 1))
    )
    doubled = jax.tree.map(lambda a: 2 * a, x)
    agree(mapped, jnp.stack([reference(x.q, x), reference(x.q, doubled)]))
