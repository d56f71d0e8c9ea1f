"""Where arrays live: batch rows over the mesh's data axis, everything else on every device."""

from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

Batch = Mapping[str, np.ndarray]
"""Arrays whose first axis is the row; `index` is the example's number, −1 for a padding row."""


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh with the one axis `data`.

    Args:
      devices: all there are by default.

    >>> data_mesh().axis_names
    ('data',)
    """
    devices = jax.devices() if devices is None else list(devices)
    return Mesh(np.array(devices), ("data",), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def by_row(mesh: Mesh) -> NamedSharding:
    """The first axis cut over `data`."""
    return NamedSharding(mesh, PartitionSpec("data"))


def pad_rows(batch: Batch, multiple: int) -> Batch:
    """A batch with rows of zeros, and index −1, appended until `multiple` divides their number.

    Args:
      batch: arrays with the same first axis.
      multiple: at least 1.

    Raises:
      ValueError: the arrays differ in their first axis, or `index` is not among them.

    >>> pad_rows({"labels": np.array([[5, 2]]), "index": np.array([7])}, 2)
    {'labels': array([[5, 2], [0, 0]]), 'index': array([ 7, -1])}
    """
    if "index" not in batch:
        raise ValueError(f"expected an array `index` in the batch, got {sorted(batch)}")
    rows = {name: np.shape(array)[:1] for name, array in batch.items()}
    if len(set(rows.values())) != 1:
        raise ValueError(f"expected arrays with the same number of rows, got {rows}")
    missing = -len(batch["index"]) % multiple
    if not missing:
        return batch
    return {
        name: np.concatenate(
            [array, np.full((missing, *array.shape[1:]), -1 if name == "index" else 0, array.dtype)]
        )
        for name, array in ((name, np.asarray(array)) for name, array in batch.items())
    }


def place_batch(batch: Batch, mesh: Mesh, *, accumulate: int = 1) -> dict[str, jax.Array]:
    """A batch on its devices, padded so that devices and accumulation divide its rows."""
    padded = pad_rows(batch, mesh.shape["data"] * accumulate)
    return jax.device_put(dict(padded), by_row(mesh))


def place(tree: PyTree, mesh: Mesh) -> PyTree:
    """A copy of a tree on every device of the mesh; the original's buffers stay the caller's."""
    return jax.device_put(tree, replicated(mesh), may_alias=False)
