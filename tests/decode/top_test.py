"""The largest, found by groups, are those of one search through all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_jax.decode.top import GROUP, top_k


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    n=st.sampled_from([1, 31, 4 * GROUP, 1000, 1023]),
    k=st.sampled_from([1, 2, 7]),
    kinds=st.integers(1, 1000),
    impossible=st.sampled_from([0.0, 0.5, 0.999, 1.0]),
    seed=st.integers(0, 99),
)
def test_they_are_laxs_with_ties_and_with_what_is_impossible(n, k, kinds, impossible, seed):
    random = np.random.default_rng(seed)
    x = random.integers(-kinds, kinds, (3, n)).astype(np.float32)
    x[random.random(x.shape) < impossible] = -np.inf
    k = min(k, n)
    for ours, jaxs in zip(top_k(jnp.asarray(x), k), jax.lax.top_k(x, k)):
        np.testing.assert_array_equal(ours, jaxs)


@pytest.mark.parametrize("dtype", ["int8", "int32", "bfloat16"])
def test_of_any_dtype(dtype):
    x = jnp.arange(2 * 1001).reshape(2, 1001).astype(dtype)
    for ours, jaxs in zip(top_k(x, 3), jax.lax.top_k(x, 3)):
        assert ours.dtype == jaxs.dtype
        np.testing.assert_array_equal(ours, jaxs)
