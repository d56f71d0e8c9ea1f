"""The mesh of devices: four axes, whose sizes multiply to the number of devices."""

import math
from collections.abc import Sequence

import jax
from jax.sharding import AxisType, Mesh

AXES = ("data", "fsdp", "context", "tensor")
"""From the outermost, whose neighbours speak least, to the innermost, whose neighbours speak most."""


def device_mesh(
    devices: Sequence[jax.Device] | None = None,
    *,
    data: int = -1,
    fsdp: int = 1,
    tensor: int = 1,
    context: int = 1,
) -> Mesh:
    """A mesh with the axes `data`, `fsdp`, `context` and `tensor`.

    Args:
      devices: all there are, on every host, by default.
      data: parts that the rows of a batch are cut into.
      fsdp: further parts of the rows, which also share out parameters and optimiser state.
      tensor: parts that heads, feed-forward units and vocabulary are cut into.
      context: parts that the length of sequences is cut into.

    At most one of the sizes is −1: it is what the others leave.

    Raises:
      ValueError: the sizes do not multiply to the number of devices.

    >>> dict(device_mesh(jax.devices()[:1], data=1).shape)
    {'data': 1, 'fsdp': 1, 'context': 1, 'tensor': 1}
    """
    devices = jax.devices() if devices is None else list(devices)
    sizes = {"data": data, "fsdp": fsdp, "tensor": tensor, "context": context}
    said = ", ".join(f"{name} {size}" for name, size in sizes.items())
    if any(size < 1 and size != -1 for size in sizes.values()):
        raise ValueError(f"expected mesh axes of at least 1, or -1 for the rest, got {said}")
    unknown = [name for name, size in sizes.items() if size == -1]
    if len(unknown) > 1:
        raise ValueError(f"expected at most one mesh axis of -1, got {said}")
    known = math.prod(size for size in sizes.values() if size != -1)
    if len(devices) % known or (not unknown and known != len(devices)):
        many = "device" if len(devices) == 1 else "devices"
        raise ValueError(
            f"expected mesh axes that multiply to the {len(devices)} {many} there are, got {said}"
        )
    sizes |= dict.fromkeys(unknown, len(devices) // known)
    shape = [sizes[name] for name in AXES]
    return jax.make_mesh(shape, AXES, (AxisType.Auto,) * len(AXES), devices=devices)


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh that does nothing but share out the rows of batches.

    Args:
      devices: all there are by default.
    """
    return device_mesh(devices)
