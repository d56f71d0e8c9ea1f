"""The backends that share one suite, in tiles that do not divide what the tests give them."""

import functools

import jax
import jax.numpy as jnp
import pytest

from attn_jax import attend, attend_with_lse, explain
from attn_jax.backends.dispatch import BACKENDS

SMALL = {"blockwise": {"tile": (2, 3)}}
# No softmax: tested where backends meet dense, in agreement_test. Several devices: in ring_test.
SPECIAL = {"linear", "ring"}
UNDER_TEST = {
    name: make(**SMALL.get(name, {})) for name, make in BACKENDS.items() if name not in SPECIAL
}


@functools.partial(jax.jit, static_argnames=("backend", "positions"))
def outcome(q, k, v, rule, *, backend, positions=None, dropout=None):
    """Output, log-sum-exp, and the gradients of q, k and v under cotangents that tell entries apart."""

    def run(q, k, v):
        return attend_with_lse(
            q, k, v, rule=rule, positions=positions, dropout=dropout, backend=UNDER_TEST[backend]
        )

    (y, lse), pull = jax.vjp(run, q, k, v)
    return y, lse, pull((waves(y), jnp.where(jnp.isfinite(lse), waves(lse), 0)))


def only_where_accepted(backend, q, k, v, **problem):
    """Skips a test whose problem a backend refuses, once it has said so when asked by name."""
    if not explain(q, k, v, **problem)[backend].accepts:
        with pytest.raises(ValueError, match=f"the {backend} backend refuses: .+"):
            attend(q, k, v, backend=UNDER_TEST[backend], **problem)
        pytest.skip(f"{backend} refuses this")


def waves(x):
    """An array like x, of numbers that are not alike."""
    return jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape).astype(x.dtype)
