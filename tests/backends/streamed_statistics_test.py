"""Streamed statistics are those of the whole matrix, gradients included."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attention_stats, biases, masks, normalizers, scores
from attn_jax.backends.problem import describe
from attn_jax.backends.streamed_statistics import streamed_statistics
from attn_jax.backends.tile_list import tile_list
from tests.backends.backends_under_test import waves

pytestmark = pytest.mark.slow  # long compilations

RNG = np.random.default_rng(0)
Q, K = jnp.asarray(RNG.normal(size=(2, 11, 4, 3))), jnp.asarray(RNG.normal(size=(2, 11, 2, 3)))
UNSEEN = masks.causal(-1) & masks.valid(jnp.arange(11) < 8)  # the first query sees nothing
RULES = {
    "softmax with a sink": Rule(
        bias=biases.alibi(4), mask=UNSEEN, normalizer=normalizers.softmax(0.3)
    ),
    "l1": Rule(scores.kernel(jax.nn.softplus), mask=masks.causal(), normalizer=normalizers.l1()),
    "sigmoid": Rule(mask=UNSEEN, normalizer=normalizers.sigmoid()),
}


@pytest.mark.parametrize(
    "name",
    [
        "softmax with a sink",
        pytest.param("l1", marks=pytest.mark.slow),
        pytest.param("sigmoid", marks=pytest.mark.slow),
    ],
)
def test_streamed_statistics_are_the_dense_ones(name):
    rule = RULES[name]

    def streamed(q, k):
        problem = describe(q, k, None, rule)
        return streamed_statistics(problem, tile_list(problem, (4, 3)))

    def pulled(function, q, k):
        stats, pull = jax.vjp(function, q, k)
        return tuple(stats), pull(
            jax.tree.map(lambda x: jnp.where(x > -jnp.inf, waves(x), 0), stats)
        )

    actual = jax.jit(lambda q, k: pulled(streamed, q, k))(Q, K)
    expected = jax.jit(lambda q, k: pulled(lambda *x: attention_stats(*x, rule=rule), q, k))(Q, K)
    chex.assert_trees_all_close(actual, expected, rtol=2e-5, atol=2e-5)
