"""From a model to a directory that ``transformers`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from attn_jax.functional.rule import Rule
from attn_jax.interop.checkpoint import write_checkpoint
from attn_jax.interop.layouts import expand
from attn_jax.interop.loading import dotted
from attn_jax.interop.registry import find_model


def save(model: Any, directory: str | Path) -> None:
    """Writes config.json and model.safetensors, as ``transformers`` would.

    Args:
      model: of an architecture that :func:`load` knows.
      directory: made where it is missing; files there are replaced, each whole or not at all.

    Raises:
      ValueError: the model, one of its rules or one of its parameters is none that the published
        format can say; each one is named. Nothing is written then.
    """
    architecture, name = find_model(model)
    variables = {
        dotted(path): variable.get_value()
        for path, variable in nnx.to_flat_state(nnx.state(model, nnx.Variable))
    }
    held = expand(architecture.table(name), variables)
    _check_rules(model, nnx.eval_shape(lambda: architecture.model(model.config, rngs=nnx.Rngs(0))))
    bare = architecture.classes[name].bare
    tensors = {}
    for tensor in held:
        parts = [variables[path] for path in tensor.paths]
        tensors[tensor.name.removeprefix(architecture.prefix) if bare else tensor.name] = (
            tensor.layout.published_shape(parts[0].shape, len(parts)),
            parts[0].dtype,
            lambda parts=parts, layout=tensor.layout: layout.published(  # type: ignore[misc]
                [np.asarray(part) for part in jax.device_get(parts)]
            ),
        )
    dtypes = {str(dtype) for _, dtype, _ in tensors.values()}
    config = architecture.write_config(model.config, name)
    write_checkpoint(directory, config | {"dtype": max(dtypes, key=len)}, tensors)


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
    return {
        dotted(path): repr(module.rule)
        for path, module in nnx.iter_modules(model)
        if isinstance(getattr(module, "rule", None), Rule)
    }
