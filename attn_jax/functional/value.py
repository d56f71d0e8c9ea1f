"""Immutable values that are pytrees: what scores, masks, biases and rules are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Self, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey

Array = jax.Array


def leaf(*, default: Any = dataclasses.MISSING) -> Any:
    """A field that is always an array leaf: Python numbers and lists become arrays, None stays."""
    return dataclasses.field(default=default, metadata={"leaf": True})


def _is_static(value: Any) -> bool:
    """Plain Python configuration, and functions; arrays, values and containers are children."""
    if value is None or isinstance(value, bool | int | float | str):
        return True
    return callable(value) and jax.tree_util.all_leaves([value])


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(leaf,))
class Value:
    """An immutable dataclass, compared by identity, whose arrays are the leaves of a pytree.

    A field declared with :func:`leaf` holds an array. Any other field is static when it holds plain
    Python (None, numbers, strings) or a function, and part of the pytree when it holds an array or
    another value. Which it is was settled when the value was built, and survives flattening.

    >>> class window(Value):
    ...     before: int
    ...     weight: Array = leaf(default=1.0)
    >>> jax.tree.map(lambda x: 2 * x, window(3))
    window(3, weight=2)
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        jax.tree_util.register_pytree_with_keys(cls, _flatten_with_keys, _unflatten(cls), _flatten)

    def __post_init__(self) -> None:
        static = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.metadata.get("leaf"):
                if isinstance(value, int | float | list | tuple):
                    object.__setattr__(self, field.name, jnp.asarray(value, dtype=_float_of(value)))
                if value is None:
                    static.append(field.name)
            elif _is_static(value):
                static.append(field.name)
        object.__setattr__(self, "_static", tuple(static))

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def __repr__(self) -> str:
        """As it was written: fields that have their default values are left out."""
        return f"{type(self).__name__}({', '.join(_arguments(self))})"


def _float_of(value: Any) -> Any:
    """Python numbers given for an array become floats of the default precision."""
    return jnp.result_type(float) if not isinstance(value, bool) else bool


def _children(value: Value) -> list[str]:
    static = value._static  # type: ignore[attr-defined]
    return [f.name for f in dataclasses.fields(value) if f.name not in static]  # type: ignore[arg-type]


def _auxiliary(value: Value) -> tuple[tuple[str, Any], ...]:
    return tuple((name, getattr(value, name)) for name in value._static)  # type: ignore[attr-defined]


def _flatten(value: Value) -> tuple[tuple[Any, ...], Any]:
    return tuple(getattr(value, name) for name in _children(value)), _auxiliary(value)


def _flatten_with_keys(value: Value) -> tuple[tuple[Any, ...], Any]:
    names = _children(value)
    return tuple((GetAttrKey(n), getattr(value, n)) for n in names), _auxiliary(value)


def _unflatten(cls: type) -> Any:
    def unflatten(static: tuple[tuple[str, Any], ...], children: tuple[Any, ...]) -> Any:
        value: Any = object.__new__(cls)
        held = dict(static)
        names = [f.name for f in dataclasses.fields(cls) if f.name not in held]
        for name, content in [*held.items(), *zip(names, children, strict=True)]:
            object.__setattr__(value, name, content)
        object.__setattr__(value, "_static", tuple(held))
        return value

    return unflatten


def _arguments(value: Value) -> Iterator[str]:
    """Fields that have no default by place, and an only field too; the others by name."""
    fields = dataclasses.fields(value)  # type: ignore[arg-type]
    for field in fields:
        content = getattr(value, field.name)
        if content is field.default or _is_same(content, field.default):
            continue
        if field.metadata.get("leaf") and _equals_default(content, field.default):
            continue
        by_place = len(fields) == 1 or field.default is dataclasses.MISSING
        yield show(content) if by_place else f"{field.name}={show(content)}"


def _is_same(content: Any, default: Any) -> bool:
    """Whether a value without numbers is a default that went through a transformation."""
    if type(content) is not type(default) or not isinstance(content, Value):
        return False
    structure: Any = jax.tree.structure(content)
    return structure.num_leaves == 0 and structure == jax.tree.structure(default)


def _equals_default(content: Any, default: Any) -> bool:
    known = isinstance(content, np.ndarray | jax.Array) and not isinstance(content, jax.core.Tracer)
    return known and isinstance(default, int | float) and content.size == 1 and content == default


def show(content: Any) -> str:
    """How a field prints: arrays by dtype and shape (scalars by value), functions by name."""
    if isinstance(content, jax.core.Tracer):
        return content.aval.str_short()
    if isinstance(content, np.ndarray | jax.Array | np.generic):
        if content.ndim == 0 and not jax.dtypes.issubdtype(content.dtype, jax.dtypes.prng_key):
            number = content.item()
            return f"{number:.4g}" if isinstance(number, float) else str(number)
        return f"{content.dtype}[{','.join(map(str, content.shape))}]"
    if isinstance(content, jax.ShapeDtypeStruct) or hasattr(content, "__jax_array__"):
        return f"{content.dtype}[{','.join(map(str, content.shape))}]"
    if callable(content) and hasattr(content, "__name__"):
        return str(content.__name__)
    return repr(content)


def raw(tree: Any) -> Any:
    """The tree with array-like wrappers (Flax variables) replaced by the arrays they hold."""

    def is_wrapper(x: Any) -> bool:
        return not isinstance(x, jax.Array) and hasattr(x, "__jax_array__")

    return jax.tree.map(
        lambda x: x.__jax_array__() if is_wrapper(x) else x, tree, is_leaf=is_wrapper
    )
