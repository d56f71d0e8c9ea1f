import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Rule, masks
from attn_jax.functional.value import Value, leaf, raw


class thing(Value):
    size: Any = 1
    weight: Any = leaf(default=2.0)
    extra: Any = leaf(default=None)
    part: Any = None


def test_numbers_of_leaf_fields_become_arrays_and_others_stay_static():
    value = thing(3, 0.5, part=thing())
    assert isinstance(value.weight, jax.Array)
    assert value.weight.dtype == jnp.float32
    assert thing(weight=[1, 2]).weight.dtype == jnp.float32
    assert thing(weight=np.arange(3)).weight.dtype == np.int64  # arrays stay what they are
    assert [x.shape for x in jax.tree.leaves(value)] == [(), ()]  # its weight, and its part's
    assert value.size == 3
    assert value.extra is None


@pytest.mark.parametrize("size", [None, True, 3, 0.5, "name", jnp.tanh, thing])
def test_plain_python_and_functions_are_static(size):
    assert len(jax.tree.leaves(thing(size))) == 1
    assert jax.jit(lambda value: value.replace(weight=1.0))(thing(size)).size == size


@pytest.mark.parametrize("size", [np.arange(2), jnp.arange(2), np.int64(3), (thing(),), thing()])
def test_arrays_and_values_are_children(size):
    assert len(jax.tree.leaves(thing(size))) == 2


def test_what_is_static_survives_flattening_whatever_the_leaves_become():
    value = thing(np.arange(3), None)
    for placeholder in (None, 0, "a name", jnp.tanh, jax.ShapeDtypeStruct((3,), jnp.int32), [1, 2]):
        mapped = jax.tree.map(lambda _, p=placeholder: p, value)
        assert mapped.size is placeholder
        assert mapped.weight is None
        leaves, structure = jax.tree.flatten(mapped, is_leaf=lambda x, p=placeholder: x is p)
        assert leaves == [placeholder]
        assert structure == jax.tree.structure(value)
    axes = jax.tree.map(lambda x: 0, value)  # as in_axes of vmap
    assert jax.vmap(lambda v: v.size + 1, in_axes=(axes,))(value).tolist() == [1, 2, 3]


def test_values_compare_by_identity_and_their_structures_by_content():
    value = thing()
    assert value == value
    assert value != thing()
    assert len({value, thing()}) == 2
    assert jax.tree.structure(thing(3)) == jax.tree.structure(thing(3))
    assert jax.tree.structure(thing(3)) != jax.tree.structure(thing(4))
    compiled = []
    run = jax.jit(lambda value: compiled.append(value) or value.weight * 2)
    for weight in (1.0, 2.0, 3.0):
        run(thing(3, weight))
    assert len(compiled) == 1, "equal structures share a compiled program"


def test_values_are_immutable_and_replaced():
    value = thing(3)
    with pytest.raises(AttributeError, match="cannot assign"):
        value.size = 4
    assert value.replace(size=4).size == 4
    assert value.size == 3
    with pytest.raises(TypeError, match="colour"):
        value.replace(colour=1)


def test_values_are_copied_and_pickled():
    value = thing(3, [1.0, 2.0], part=thing(4))
    for again in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert repr(again) == repr(value)
        assert jax.tree.structure(again) == jax.tree.structure(value)


def test_leaves_are_named_by_their_fields():
    paths = [
        jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(thing(part=thing()))
    ]
    assert paths == [".weight", ".part.weight"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (thing(), "thing()"),
        (thing(3), "thing(size=3)"),
        (thing(123456789), "thing(size=123456789)"),
        (thing(jnp.asarray(123456)), "thing(size=123456)"),
        (thing(weight=0.125), "thing(weight=0.125)"),
        (thing(weight=[[1.0, 2.0]]), "thing(weight=float32[1,2])"),
        (thing(len, part=thing(weight=3)), "thing(size=len, part=thing(weight=3))"),
        (thing("a"), "thing(size='a')"),
        (thing(jax.random.key(0)), "thing(size=key<fry>[])"),
    ],
)
def test_values_print_as_they_are_written(value, text):
    assert repr(value) == text


def test_traced_leaves_print_by_type():
    seen = []
    jax.jit(lambda value: seen.append(repr(value)))(thing(weight=[1.0, 2.0]))
    assert seen == ["thing(weight=float32[2])"]


def test_a_default_that_went_through_a_transformation_prints_as_one():
    rule = Rule(mask=masks.causal())
    assert repr(jax.tree.map(jnp.copy, rule)) == repr(rule) == "Rule(mask=causal())"


def test_flax_variables_and_shapes_print_by_type():
    value = thing(part=nnx.Param(jnp.ones(3)))
    assert repr(value) == "thing(part=float32[3])"
    assert repr(jax.eval_shape(lambda: thing(weight=jnp.ones(2)))) == "thing(weight=float32[2])"


def test_raw_takes_arrays_out_of_flax_variables():
    value = thing(part=nnx.Param(jnp.ones(3)), weight=2.0)
    assert isinstance(raw(value).part, jax.Array)
    assert raw(value).part.tolist() == [1, 1, 1]
    assert raw(value).weight == 2
    doubled = jax.jit(lambda v: raw(v).part * 2)(value)
    assert doubled.tolist() == [2, 2, 2]
