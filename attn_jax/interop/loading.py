"""From a published model's directory to a model, straight into the placement asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx, traverse_util

from attn_jax.interop.architecture import Architecture
from attn_jax.interop.checkpoint import Checkpoint
from attn_jax.interop.layouts import Held, expand
from attn_jax.interop.registry import find

Sharding = jax.sharding.Sharding
Place = Callable[[Any], Any]


def load(
    directory: str | Path,
    *,
    architecture: str | None = None,
    dtype: Any = None,
    place: Sharding | Place | None = None,
) -> Any:
    """The model of a directory with config.json and model.safetensors, one file or sharded.

    Nothing is initialised at random, no pickle is read, and each device reads only its own part of
    a file that is mapped into memory.

    Args:
      directory: what ``transformers`` writes with ``save_pretrained``.
      architecture: the class to read it as, such as "BertModel", whose tensors it must have; the
        one that config.json names where None.
      dtype: of the parameters; that of the file where None.
      place: where parameters live: a sharding for all, or a function from the tree of their shapes
        and dtypes, nested dictionaries, to a like tree of shardings, such as the method `shardings`
        of ``attn_jax.train.Layout``. On the default device where None.

    Returns:
      A model of ``attn_jax.models``; which one, and with which head, config.json says.

    Raises:
      FileNotFoundError: there is no such directory, or a file that it should have is missing.
      ValueError: the architecture is unknown, a field of the config is not understood, or tensors
        are missing, unexpected or of a wrong shape; each one is named.
      ImportError: the safetensors package is missing.
    """
    checkpoint = Checkpoint(directory)
    known, name = find(checkpoint.config, architecture, checkpoint.directory)
    config = known.read_config(checkpoint.config, name)

    def build() -> nnx.Module:
        return known.model(config, rngs=nnx.Rngs(0))

    graph, abstract, rest = nnx.split(nnx.eval_shape(build), nnx.Variable, ...)
    variables = dict(nnx.to_flat_state(abstract))
    shapes = {dotted(path): variable.get_value().shape for path, variable in variables.items()}
    held = expand(known.table(name), shapes)
    names = _checked(checkpoint, known, held, shapes)
    likes = {
        path: jax.ShapeDtypeStruct(shapes[path], _kept(checkpoint.dtype(names[tensor.name]), dtype))
        for tensor in held
        for path in tensor.paths
    }
    shardings = _shardings(place, {path: likes[dotted(path)] for path in variables})
    arrays = {
        path: _read(checkpoint, names[tensor.name], tensor, part, likes[path], shardings[path])
        for tensor in held
        for part, path in enumerate(tensor.paths)
    }
    filled = nnx.from_flat_state(
        [(path, variable.replace(arrays[dotted(path)])) for path, variable in variables.items()]
    )
    if jax.tree.leaves(rest):  # numbers of a rule that are no parameters: nothing else is computed
        rest = jax.jit(lambda: nnx.split(build(), nnx.Variable, ...)[2])()
    return nnx.merge(graph, filled, rest)


def dotted(path: tuple[Any, ...]) -> str:
    """A path in a model as text, ``layers.0.self_attention.query.kernel``."""
    return ".".join(map(str, path))


def _checked(
    checkpoint: Checkpoint,
    architecture: Architecture,
    held: list[Held],
    shapes: dict[str, tuple[int, ...]],
) -> dict[str, str]:
    """What the file calls each tensor that is needed, once none is missing, left over or amiss."""
    wanted = {tensor.name: tensor for tensor in held}
    known = wanted.keys() | architecture.tied.keys()
    names = {}
    for given in checkpoint.names:
        name = architecture.canonical(given)
        prefixed = architecture.prefix + name
        names[prefixed if name not in known and prefixed in known else name] = given
    problems = {
        "missing tensors": sorted(wanted.keys() - names.keys()),
        "unexpected tensors": sorted(
            names[name] for name in names.keys() - known if not architecture.is_unused(name)
        ),
        "wrong shapes": [],
        "tensors that differ from those they are tied to": [
            names[tied]
            for tied, to in sorted(architecture.tied.items())
            if tied in names.keys() - wanted.keys()
            and to in names
            and not np.array_equal(checkpoint.read(names[tied]), checkpoint.read(names[to]))
        ],
    }
    for name in sorted(wanted.keys() & names.keys()):
        paths, layout = wanted[name].paths, wanted[name].layout
        shape, expected = (
            checkpoint.shape(names[name]),
            layout.published_shape(shapes[paths[0]], len(paths)),
        )
        if shape != expected:
            problems["wrong shapes"].append(f"{names[name]} is {shape}, expected {expected}")
    if any(problems.values()):
        said = "; ".join(f"{what}: {', '.join(which)}" for what, which in problems.items() if which)
        raise ValueError(f"{checkpoint.directory} does not hold what its config.json says. {said}")
    return names


def _kept(stored: Any, asked: Any) -> Any:
    """The dtype of a parameter whose tensor has a dtype: only floats are changed."""
    floating = asked is not None and jnp.issubdtype(stored, jnp.floating)
    return jax.dtypes.canonicalize_dtype(asked if floating else stored)


def _shardings(place: Sharding | Place | None, likes: dict[tuple, Any]) -> dict[str, Any]:
    """Where each parameter lives, by its path."""
    if place is None or isinstance(place, Sharding):
        return {dotted(path): place for path in likes}
    tree = traverse_util.unflatten_dict(likes)
    given = place(tree)
    expected, structure = (str(jax.tree.structure(t)) for t in (tree, given))
    if structure != expected:
        raise ValueError(
            "place(parameters) must return a sharding for each parameter, in nested dictionaries "
            f"like {expected}; got {structure}"
        )
    return {dotted(path): sharding for path, sharding in traverse_util.flatten_dict(given).items()}


def _read(
    checkpoint: Checkpoint,
    name: str,
    tensor: Held,
    part: int,
    like: jax.ShapeDtypeStruct,
    sharding: Sharding | None,
) -> jax.Array:
    """One parameter, each device's part of it read from the file by itself."""

    def piece(index: Any) -> np.ndarray:
        read = checkpoint.read(name, tensor.layout.where(part, like.shape, index))
        return np.ascontiguousarray(tensor.layout.ours(read)).astype(like.dtype, copy=False)

    if sharding is None:
        return jnp.asarray(piece((slice(None),) * len(like.shape)))
    return jax.make_array_from_callback(like.shape, sharding, piece)
