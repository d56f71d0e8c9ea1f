import dataclasses

import chex
import jax
import jax.numpy as jnp
import optax
import pytest

from attn_jax.train.state import State, average


def state(value, *, dtype=jnp.float32, ema=False):
    params = {"w": jnp.full(2, value, dtype)}
    return State.create(params, optax.adam(0.1), jax.random.key(0), ema=ema)


def test_a_state_is_a_pytree_that_survives_its_leaves():
    before = state(1.0, ema=True)
    leaves, structure = jax.tree.flatten(before)
    after = jax.tree.unflatten(structure, leaves)
    chex.assert_trees_all_equal(before.params, after.params)
    assert before.step.dtype == jnp.int32


def test_raw_keys_are_refused():
    with pytest.raises(TypeError, match="typed key"):
        State.create({}, optax.adam(0.1), jnp.zeros(2, jnp.uint32))


def test_average_is_the_mean_in_float32_of_params_and_ema_and_the_rest_of_the_last():
    states = [state(x, dtype=jnp.bfloat16, ema=True) for x in (1.0, 2.0, 6.0)]
    states[-1] = dataclasses.replace(states[-1], step=jnp.int32(7))
    mean = average(states)
    assert mean.params["w"].dtype == jnp.bfloat16
    chex.assert_trees_all_equal(mean.params["w"], jnp.full(2, 3, jnp.bfloat16))
    chex.assert_trees_all_equal(mean.ema, mean.params)
    assert int(mean.step) == 7


def test_averaging_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        average([])


def test_averaged_is_the_ema_where_there_is_one():
    assert state(1.0).averaged["w"] is not None
    with_ema = dataclasses.replace(state(1.0), ema={"w": jnp.zeros(2)})
    chex.assert_trees_all_equal(with_ema.averaged, {"w": jnp.zeros(2)})
