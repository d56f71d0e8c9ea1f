"""Temporary memory, as the compiler planned it: linear in the length, and a fraction of dense."""

import jax
import jax.numpy as jnp
import pytest

from attn_jax import Rule, attend, attend_with_lse, biases, masks, normalizers, scores

pytestmark = pytest.mark.slow  # long compilations

H, D = 8, 64
RULES = {
    "causal": lambda n: Rule(mask=masks.causal()),
    "window": lambda n: Rule(mask=masks.window(256, 0)),
    "gaussian, alibi, packed, sink": lambda n: Rule(
        scores.gaussian(2.0),
        biases.alibi(H),
        mask=masks.segments(jnp.arange(n) // 100),
        normalizer=normalizers.softmax(0.0),
    ),
    "l1": lambda n: Rule(
        scores.kernel(jax.nn.relu), mask=masks.causal(), normalizer=normalizers.l1()
    ),
}


def temporaries(n: int, rule: Rule, backend: str) -> int:
    """Bytes for the output and the gradients of q, k, v and the rule's numbers."""
    x = jax.ShapeDtypeStruct((1, n, H, D), jnp.float32)

    def run(q, k, v, rule):
        y, pull = jax.vjp(lambda q, k, v: attend(q, k, v, rule=rule, backend=backend), q, k, v)
        return pull(y)

    compiled = jax.jit(run).lower(x, x, x, rule).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("name", ["causal"])
def test_backward_memory_is_at_most_a_25th_of_dense_at_4096(name):
    rule = RULES[name](4096)
    assert 25 * temporaries(4096, rule, "blockwise") <= temporaries(4096, rule, "dense")


@pytest.mark.parametrize(
    "name", ["causal", *(pytest.param(n, marks=pytest.mark.slow) for n in list(RULES)[1:])]
)
def test_four_times_the_length_is_four_times_the_memory(name):
    short, long = (temporaries(n, RULES[name](n), "blockwise") for n in (4096, 16384))
    assert long <= 4.3 * short


@pytest.mark.slow
def test_hessian_vector_products_are_linear_in_memory():
    rule = Rule(mask=masks.causal())

    def bytes_at(n: int) -> int:
        x = jax.ShapeDtypeStruct((1, n, H, D), jnp.float32)

        def loss(q, k, v):
            y, lse = attend_with_lse(q, k, v, rule=rule, backend="blockwise")
            return jnp.square(y).sum() + lse.sum()

        def product(*x):
            return jax.jvp(jax.grad(loss, (0, 1, 2)), x, x)

        return jax.jit(product).lower(x, x, x).compile().memory_analysis().temp_size_in_bytes

    assert bytes_at(16384) <= 4.3 * bytes_at(4096)
