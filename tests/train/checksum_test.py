import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.train.checksum import checksum, structure


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.int32, np.int8, np.bool_])
def test_every_change_of_one_element_is_seen(dtype):
    array = np.zeros((3, 4), dtype)
    arrays = [array]
    for position in np.ndindex(3, 4):
        changed = array.copy()
        changed[position] = 1
        arrays.append(changed)
    assert len(set(checksum(arrays))) == 13


def test_zero_and_minus_zero_differ_and_keys_are_their_data():
    assert checksum(jnp.array(0.0)) != checksum(jnp.array(-0.0))
    assert checksum(jax.random.key(1)) != checksum(jax.random.key(2))


def test_structure_names_every_leaf():
    assert structure({"a": [jnp.ones(2), jax.random.key(0)]}) == {
        "['a'][0]": "float32[2]",
        "['a'][1]": "key<fry>[]",
    }
