"""From a model to a directory that ``transformers`` reads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attn_jax.functional.rule import Rule
from attn_jax.interop.checkpoint import write_checkpoint
from attn_jax.interop.layouts import Layout, expand
from attn_jax.interop.loading import dotted
from attn_jax.interop.registry import find_model, form


class Tensor(NamedTuple):
    """A tensor to be written: what it is like, and how to make it."""

    shape: tuple[int, ...]
    dtype: Any
    array: Callable[[], np.ndarray]


def save(model: Any, directory: str | Path) -> None:
    """Writes config.json and model.safetensors, as ``transformers`` would.

    Args:
      model: of an architecture that :func:`load` knows.
      directory: made where it is missing; files there are replaced, each whole or not at all.

    Raises:
      ValueError: the model, one of its rules or one of its parameters is none that the published
        format can say; each one is named. Nothing is written then.
    """
    model = form(model)
    architecture, name = find_model(model)
    architecture.check_config(model.config, name)
    tensors = published(model)
    built = nnx.eval_shape(lambda: architecture.model(model.config, rngs=nnx.Rngs(0)))
    _check_parameters(model, built)
    _check_rules(model, built)
    dtype = np.result_type(*{tensor.dtype for tensor in tensors.values()})
    config = architecture.write_config(model.config, name) | {"dtype": str(dtype)}
    write_checkpoint(directory, config, tensors)


def published(model: Any) -> dict[str, Tensor]:
    """A model's parameters as the published format names and lays them, by name.

    Raises:
      ValueError: as :func:`save`, but for rules.
    """
    architecture, name = find_model(model)
    prefix = architecture.prefix if architecture.classes[name].bare else ""
    variables, tensors = _variables(model), {}
    for held in expand(architecture.table(name), variables):
        parts = [variables[path] for path in held.paths]
        tensors[held.name.removeprefix(prefix)] = Tensor(
            held.layout.published_shape(parts[0].shape, len(parts)),
            parts[0].dtype,
            functools.partial(_joined, held.layout, parts),
        )
    return tensors


def _joined(layout: Layout, parts: list[jax.Array]) -> np.ndarray:
    return layout.published([np.asarray(part) for part in jax.device_get(parts)])


def _variables(model: Any) -> dict[str, Any]:
    return {
        dotted(path): variable.get_value()
        for path, variable in nnx.to_flat_state(nnx.state(model, nnx.Variable))
    }


def _check_parameters(model: Any, built: Any) -> None:
    """Raises ValueError where a parameter is missing or of another shape than the config gives."""
    ours = {path: array.shape for path, array in _variables(model).items()}
    changed = [
        f"{path} is {ours.get(path, 'missing')}, expected {array.shape}"
        for path, array in _variables(built).items()
        if ours.get(path) != array.shape
    ]
    if changed:
        raise ValueError("the model is not what its config says: " + "; ".join(changed))


def _check_rules(model: Any, built: Any) -> None:
    """Raises ValueError where a rule is another than the config gives."""
    ours, theirs = _rules(model), _rules(built)
    changed = [
        f"{path}.rule is {rule}, which config.json would read as {theirs.get(path)}"
        for path, rule in ours.items()
        if rule != theirs.get(path)
    ]
    if changed:
        raise ValueError("the published format has no place for a rule: " + "; ".join(changed))


def _rules(model: Any) -> dict[str, str]:
    """The rule of each module by its path, as text; of arrays, which are saved, the shapes."""

    def shapes(rule: Rule) -> Rule:
        return jax.tree.map(jnp.shape, rule, is_leaf=lambda x: isinstance(x, nnx.Variable))

    rules = {}
    for path, module in nnx.iter_modules(model):
        if isinstance(rule := getattr(module, "rule", None), Rule):
            pattern = getattr(module, "pattern", None)  # what joins it, by length
            rules[dotted(path)] = f"{shapes(rule)!r}{f' & {pattern}' if pattern else ''}"
    return rules
