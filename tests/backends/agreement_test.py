"""One suite that every backend inherits: it equals dense, or refuses and says why.

Values, and gradients of q, k, v and of every number of the rule, over rules, shapes, dtypes, dropout and
transformations. Tiles are small and divide nothing.
"""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
from tests.backends.backends_under_test import waves

BACKENDS = {
    "blockwise": backends.blockwise(tile=(4, 5)),
    "blockwise, one tile": backends.blockwise(),
    "linear": backends.linear(),
    "fused": backends.fused(),
}
B, T, S, H, G, D, E = 2, 11, 13, 4, 2, 4, 3


def drawn(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def positive(*shape: int) -> Any:
    return jnp.abs(drawn(*shape, seed=5)) + 0.5


IDS = np.array([[0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, -1], [0] * 9 + [-1] * 4])
GLOBAL = np.arange(S) % 6 == 1
MASKED = masks.causal() & masks.valid(IDS >= 0)
dot = scores.scaled_dot()
softmax = normalizers.softmax

# Name: (a rule, which parts of the suite it is in). Rules are built when a test asks for them.
FAST: dict[str, Callable[[], Rule]] = {
    "nothing but scores": lambda: Rule(),
    "causal, padded, alibi, sink": lambda: Rule(
        scores.scaled_dot(positive(H)), biases.alibi(H), mask=MASKED, normalizer=softmax(drawn(H))
    ),
    "window, dense bias, soft cap": lambda: Rule(
        scores.bilinear(drawn(D, D)),
        biases.dense(drawn(B, H, T, S)) + biases.t5(drawn(8, H), True, 16),
        transforms.soft_cap(2.0),
        masks.window(3, 1),
    ),
    "additive, packed at run time": lambda: Rule(
        scores.additive(drawn(D, 6), drawn(D, 6), drawn(6)),
        biases.dense(drawn(H, 1, S)),
        mask=masks.segments(jnp.asarray(IDS[:, 2:]), jnp.asarray(IDS)) & masks.causal(),
    ),
    "l1 of a kernel, causal": lambda: Rule(
        scores.kernel(features.elu_plus_one()), mask=MASKED, normalizer=normalizers.l1()
    ),
    "l1 of random features, padded": lambda: Rule(
        scores.kernel(features.favor(jax.random.key(0), D, 6)),
        mask=masks.valid(jnp.asarray(IDS >= 0)),
        normalizer=normalizers.l1(),
    ),
    "l1, strictly causal": lambda: Rule(
        scores.kernel(features.elu_plus_one()), mask=masks.causal(-4), normalizer=normalizers.l1()
    ),
    "sigmoid": lambda: Rule(mask=MASKED, normalizer=normalizers.sigmoid(drawn(H))),
    "gaussian, a head each": lambda: Rule(
        scores.gaussian(positive(H)),
        mask=masks.per_head(
            [masks.causal(), masks.window(2, 2), masks.stride(3), ~masks.diagonal()]
        ),
    ),
}
SLOW: dict[str, Callable[[], Rule]] = {
    "dot": lambda: Rule(scores.dot()),
    "cosine": lambda: Rule(scores.cosine(0.3), mask=masks.causal()),
    "l2": lambda: Rule(scores.l2(0.5)),
    "laplace": lambda: Rule(scores.laplace(positive(H)), mask=MASKED),
    "boxcar": lambda: Rule(scores.boxcar(2.0)),
    "triangular": lambda: Rule(scores.triangular(3.0)),
    "epanechnikov": lambda: Rule(scores.epanechnikov(3.0)),
    "pairwise": lambda: Rule(
        scores.pairwise(lambda q, k, *, w: -(w * jnp.abs(q - k)).sum(), w=positive(D)), mask=MASKED
    ),
    "relative_2d": lambda: Rule(dot, biases.relative_2d(drawn(35, H), (3, 4))),
    "transform of positions": lambda: Rule(
        transform=lambda s, i, j: s * jnp.cos(i - j), transform_reads_positions=True
    ),
    "nobody sees anybody": lambda: Rule(mask=masks.causal() & ~masks.causal()),
    "prefix": lambda: Rule(mask=masks.causal() | masks.prefix(np.array([2, 5]))),
    "lengths": lambda: Rule(mask=masks.lengths(jnp.array([0, 7]))),
    "segments known while tracing": lambda: Rule(mask=masks.segments(IDS[:, 2:], IDS)),
    "explicit": lambda: Rule(mask=masks.explicit(drawn(B, H, T, S) > 0)),
    "explicit, by key, at run time": lambda: Rule(mask=masks.explicit(drawn(B, 1, 1, S) > 0)),
    "where": lambda: Rule(mask=masks.where(lambda i, j: (i * j) % 3 == 0)),
    "where with a bound": lambda: Rule(
        mask=masks.where(lambda i, j: i >= j, lambda a, b, c, d: (b >= c, a >= d))
    ),
    "exclusive or": lambda: Rule(mask=masks.causal() ^ masks.same_block(3)),
    "longformer": lambda: Rule(mask=patterns.longformer(4) | masks.global_tokens(keys=GLOBAL)),
    "dilated": lambda: Rule(mask=patterns.dilated(4, 2)),
    "bigbird": lambda: Rule(mask=patterns.bigbird(2, 3, 1, 1)),
    "strided": lambda: Rule(mask=patterns.strided(3)),
    "fixed": lambda: Rule(mask=patterns.fixed(4, 1)),
}
REFUSED: dict[str, Callable[[], Rule]] = {
    "sparsemax": lambda: Rule(normalizer=normalizers.sparsemax()),
    "entmax15": lambda: Rule(normalizer=normalizers.entmax15()),
}
QUICK = ("causal, padded, alibi, sink", "window, dense bias, soft cap", "l1 of a kernel, causal")
RULES = [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in (FAST | SLOW)]


def arrays(dtype: Any = jnp.float32, batch: tuple[int, ...] = (B,)) -> tuple[Any, Any, Any]:
    shapes = (*batch, T, H, D), (*batch, S, G, D), (*batch, S, G, E)
    return tuple(drawn(*shape, seed=n).astype(dtype) for n, shape in enumerate(shapes, 1))  # type: ignore[return-value]


def outcome(backend: Any, rule: Rule, x: Any, **options: Any) -> dict[str, Any]:
    """Output, log-sum-exp where there is one, and all gradients, as one compiled function."""
    leaves, structure = jax.tree.flatten(rule)
    smooth = [n for n, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    options = {"positions": "end", **options}

    def run(x: Any, numbers: list[Any]) -> Any:
        parts = list(leaves)  # what is not smooth stays known while tracing
        for n, number in zip(smooth, numbers, strict=True):
            parts[n] = number
        filled = jax.tree.unflatten(structure, parts)
        door = attend_with_lse if isinstance(rule.normalizer, softmax) else attend
        return door(*x, rule=filled, backend=backend, **options)

    def gradients(x: Any, numbers: list[Any]) -> dict[str, Any]:
        out, pull = jax.vjp(run, x, numbers)
        cotangent = jax.tree.map(lambda y: jnp.where(jnp.isfinite(y), waves(y), 0), out)
        return {"out": out, "gradients": pull(cotangent)}

    return jax.jit(gradients)(x, [leaves[n] for n in smooth])


def agree(actual: Any, expected: Any, tolerance: float = 3e-5) -> None:
    chex.assert_trees_all_equal_dtypes(actual, expected)
    widen = lambda x: x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x  # noqa: E731
    chex.assert_trees_all_close(
        *(jax.tree.map(widen, tree) for tree in (actual, expected)), rtol=tolerance, atol=tolerance
    )


@pytest.fixture(
    params=[
        "blockwise",
        "linear",
        "fused",
        pytest.param("blockwise, one tile", marks=pytest.mark.slow),
    ]
)
def backend(request: pytest.FixtureRequest) -> Any:
    return BACKENDS[request.param]


def accepts(backend: Any, rule: Rule, x: Any, **options: Any) -> bool:
    """Whether it takes the problem; where it does not, that it says why when asked by name."""
    name = backend.name
    verdict = explain(*x, rule=rule, **{"positions": "end", **options})[name]
    if not verdict.accepts:
        with pytest.raises(ValueError, match=f"the {name} backend refuses: .+"):
            attend(*x, rule=rule, backend=backend, **{"positions": "end", **options})
    return verdict.accepts


@functools.cache
def by_dense(name: str) -> Any:
    return outcome("dense", (FAST | SLOW)[name](), arrays())


@pytest.mark.parametrize("name", RULES)
def test_every_rule_in_value_and_gradient(backend, name):
    rule, x = (FAST | SLOW)[name](), arrays()
    if accepts(backend, rule, x):
        agree(outcome(backend, rule, x), by_dense(name))


@pytest.mark.parametrize("name", REFUSED)
def test_a_normalizer_that_needs_the_whole_row(name):
    rule = REFUSED[name]()
    assert not accepts(backends.blockwise(), rule, arrays())


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_float64(backend, name, x64):
    rule, x = jax.tree.map(
        lambda a: a.astype(jnp.float64) if a.dtype == jnp.float32 else a,
        (FAST[name](), arrays()),
    )
    if accepts(backend, rule, x):
        agree(outcome(backend, rule, x), outcome("dense", rule, x), 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_bfloat16(backend, name):
    rule, x = FAST[name](), arrays(jnp.bfloat16)
    if accepts(backend, rule, x):
        agree(outcome(backend, rule, x), outcome("dense", rule, x), 0.06)


def test_dropout_is_one_draw_whatever_the_tiles(backend):
    rule = FAST["causal, padded, alibi, sink"]()
    dropout = Dropout(0.4, jax.random.key(3))
    if accepts(backend, rule, arrays(), dropout=dropout):
        dropped = outcome(backend, rule, arrays(), dropout=dropout)
        agree(dropped, outcome("dense", rule, arrays(), dropout=dropout))


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        ((), 1, 1, 1, 1, 1, 1),
        ((), 1, 9, 4, 1, 2, 5),
        ((2, 3), 10, 10, 2, 2, 3, 3),
        ((1,), 3, 0, 1, 1, 2, 2),
    ],
    ids=str,
)
def test_every_shape(backend, shape):
    """No batch axis, two of them; one query; lengths that tiles divide; one key head; no key."""
    batch, t, s, h, g, d, e = shape
    x = drawn(*batch, t, h, d), drawn(*batch, s, g, d, seed=1), drawn(*batch, s, g, e, seed=2)
    rule = Rule(mask=masks.window(4, 0), normalizer=softmax(0.5))
    if accepts(backend, rule, x):
        agree(outcome(backend, rule, x), outcome("dense", rule, x))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unsorted", "a row each", "traced"])
def test_positions(backend, kind):
    rng = np.random.default_rng(0)
    q, k = rng.permutation(T) + 2, rng.permutation(S)
    if kind == "a row each":
        q, k = np.stack([q, q[::-1]]), np.stack([k[::-1], k])
    if kind == "traced":
        q, k = jnp.asarray(q), jnp.asarray(k)
    rule = Rule(bias=biases.alibi(H), mask=masks.window(3, 1))
    at = Positions(q, k)
    if accepts(backend, rule, arrays(), positions=at):
        agree(
            outcome(backend, rule, arrays(), positions=at),
            outcome("dense", rule, arrays(), positions=at),
        )


@pytest.mark.slow
def test_what_nobody_sees_may_be_nan(backend):
    """Semantics 2, where keys are projected before they are scored."""
    rule = FAST["additive, packed at run time"]()
    x = arrays()
    if accepts(backend, rule, x):
        clean = outcome(backend, rule, x)
        q, k, v = x
        hidden = jnp.asarray(IDS < 0)[..., None, None]
        k, v = jnp.where(hidden, jnp.nan, k), jnp.where(hidden, jnp.inf, v)
        q = jnp.where(hidden[:, 2:], jnp.nan, q)
        agree(outcome(backend, rule, (q, k, v)), clean, 0)


@pytest.mark.slow
def test_under_vmap_scan_and_checkpoint(backend):
    """A rule, a mask known at run time and a dropout key, each mapped."""
    x = arrays(batch=(3, B))
    ids = jnp.asarray(np.stack([np.roll(IDS, n, 1) for n in range(3)]))
    slopes, rngs = positive(3, H), jax.random.split(jax.random.key(0), 3)

    def one(backend: Any, x: Any, ids: Any, slopes: Any, rng: Any) -> Any:
        rule = Rule(bias=biases.alibi(slopes=slopes), mask=masks.segments(ids[:, 2:], ids))
        return attend(*x, rule=rule, positions="end", dropout=Dropout(0.2, rng), backend=backend)

    def total(how: str, backend: Any) -> Any:
        def f(x: Any, slopes: Any) -> Any:
            if how == "vmap":
                y = jax.vmap(lambda *a: one(backend, *a))(x, ids, slopes, rngs)
            else:
                step = jax.checkpoint(lambda c, a: (c, one(backend, *a)))
                y = jax.lax.scan(step, None, (x, ids, slopes, rngs))[1]
            return (y * waves(y)).sum()

        return jax.jit(jax.value_and_grad(f, (0, 1)))(x, slopes)

    rule = Rule(bias=biases.alibi(H), mask=masks.causal())
    if accepts(backend, rule, arrays(), dropout=Dropout(0.2, rngs[0])):
        expected = total("scan", "dense")
        agree(total("vmap", backend), expected)
        agree(total("scan", backend), expected)
