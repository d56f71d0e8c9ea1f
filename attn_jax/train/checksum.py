"""What a tree of arrays is, in a few numbers: to tell whether one read is the one written."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def structure(tree: PyTree) -> dict[str, str]:
    """Each leaf's path with its dtype and shape.

    >>> structure({"w": jnp.ones((2, 3))})
    {"['w']": 'float32[2, 3]'}
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): f"{x.dtype}{list(x.shape)}" for path, x in leaves}


def checksum(tree: PyTree) -> list[int]:
    r"""A number for each leaf, computed where the array lives, whatever its sharding.

    .. math:: \sum_i (2i + 1) x_i \bmod 2^{32}

    over the elements' bits. The weights are odd, so no change of a single element goes unseen.

    >>> checksum([jnp.array([1, 2], jnp.int32)])
    [7]
    """
    return [int(number) for number in jax.device_get(_checksums(jax.tree.leaves(tree)))]


@jax.jit
def _checksums(leaves: list[Any]) -> list[Array]:
    return [_one(leaf) for leaf in leaves]


def _one(x: Array) -> Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    if x.dtype == bool:
        x = x.astype(jnp.uint8)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}[x.dtype.itemsize]
    bits = jax.lax.bitcast_convert_type(x, unsigned).astype(jnp.uint32)
    index = jnp.zeros(bits.shape, jnp.uint32)
    for axis, size in enumerate(bits.shape):
        index = index * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
    return jnp.sum(bits * (2 * index + 1), dtype=jnp.uint32)
