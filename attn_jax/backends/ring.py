"""Sequences sharded over devices: blocks of keys and values travel around a ring of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec

from attn_jax.backends.blockwise import Streaming
from attn_jax.backends.problem import Problem
from attn_jax.backends.ring_hops import Hops, distances
from attn_jax.backends.ring_shards import Shards
from attn_jax.backends.token_arrays import axes_of
from attn_jax.functional.value import Array


class ring(Streaming):
    """Each device keeps its queries; the keys and values of the others come to it, block by block.

    Exact for what ``blockwise`` is exact for, in value and every order of derivative, at memory linear
    in the length that one device holds. In each direction a device receives at most n − 1 blocks, each
    from the device that holds it. Blocks at which no device looks are not sent, where that is known
    while tracing (a window); those at which this one does not look are not computed (``causal``, on the
    devices that come first); inside a block, tiles are left out as ``blockwise`` does.

    There are two ways to call it; either is best under ``jax.jit``. From any code on whole arrays, with
    ``jax.set_mesh(mesh)`` or with `mesh` given: other axes of the mesh stay as they are, batch rows over
    data, heads over tensor. Or inside ``jax.shard_map`` over `axis`, on this device's part of all that
    runs along the sequence: q, k, v, positions that are arrays, the ids and flags of masks. There too,
    "start" and "end", lengths and draws of dropout are those of the whole sequence; rows of a batch that
    is cut as well draw by a key each.

    Args:
      axis: the mesh axis that the sequence is sharded over; it divides t and s.
      order: what a device works on: "contiguous", the part of the sequence that it holds; or "zigzag",
        where devices exchange halves of their parts and of the result, so that ``causal`` gives each
        the same work. Arguments and results are in their usual order either way.
      tile: as for ``blockwise``.
      mesh: the mesh, where no ``jax.set_mesh`` says it.

    Reference: Liu, Zaharia and Abbeel (2023), section 3.

    >>> ring("sequence", order="zigzag")
    ring(axis='sequence', order='zigzag')
    """

    axis: str = "context"
    order: str = "contiguous"
    tile: tuple[int, int] | None = None
    mesh: Any = None

    def __post_init__(self) -> None:
        if self.order not in ("contiguous", "zigzag"):
            raise ValueError(f'ring(order) must be "contiguous" or "zigzag", got {self.order!r}')
        super().__post_init__()

    def refuses(self, problem: Problem) -> str | None:
        where = self._where()
        if where is None:
            return (
                f"there is no mesh with an axis {self.axis!r} here: call it under jax.set_mesh(mesh), "
                f"inside jax.shard_map, or as backends.ring({self.axis!r}, mesh=mesh)"
            )
        try:
            known = axes_of(problem)
        except TypeError as unknown:
            return str(unknown)
        if where.inside and where.devices > 1 and any(None not in along for along in known):
            return (
                "inside jax.shard_map it takes no array of queries × keys, of which no part is one "
                "device's: call it on whole arrays"
            )
        return problem.rule.normalizer.cannot_stream() or self._cannot_deal(problem, where)

    def _cannot_deal(self, problem: Problem, where: _Where) -> str | None:
        chunks = self._shards(where).chunks
        parts = chunks if where.inside else chunks * where.devices
        for name, size in (("t", problem.axes.t), ("s", problem.axes.s)):
            if size % parts:
                return (
                    f"{name} = {size} is no multiple of {parts}, as {where.devices} devices in "
                    f"{self.order} order need it: pad to one, and mask the padding"
                )
        return None

    def suits(self, problem: Problem) -> bool:
        # On a device already, only the caller knows whether it holds a part of a sequence or all.
        where = self._where()
        return where is not None and not where.inside and where.devices > 1

    def cost(self, problem: Problem) -> str:
        where = self._where()
        assert where is not None
        found = distances(problem, self._shards(where), where.inside)
        return f"to each of {where.devices} devices come the keys of {len(found)}"

    def rows(self, problem: Problem) -> tuple[Array, Array]:
        where = self._where()
        assert where is not None
        hops = Hops(problem, self._shards(where), self.tile, where.inside)
        if where.inside:
            return hops.on_device(hops.leaves, hops.captured)
        whole = PartitionSpec()
        leaves = [along.spec(x.ndim, self.axis) for x, along in zip(hops.leaves, hops.along)]
        batch = [None] * len(problem.axes.batch)
        run = jax.shard_map(
            hops.on_device,
            mesh=where.mesh,
            in_specs=(leaves, jax.tree.map(lambda _: whole, hops.captured)),
            out_specs=(PartitionSpec(*batch, self.axis), PartitionSpec(*batch, None, self.axis)),
            axis_names={self.axis},
            check_vma=False,
        )
        return jax.jit(run)(hops.leaves, hops.captured)

    def _shards(self, where: _Where) -> Shards:
        return Shards(self.axis, where.devices, self.order)

    def _where(self) -> _Where | None:
        context = jax.sharding.get_abstract_mesh()
        if self.axis in context.axis_names:
            return _Where(context.shape[self.axis], self.axis in context.manual_axes, None)
        if self.mesh is not None and self.axis in self.mesh.axis_names:
            return _Where(self.mesh.shape[self.axis], False, self.mesh)
        return None


class _Where(NamedTuple):
    """How many devices the ring has, whether we are on one of them, and the mesh unless it is set."""

    devices: int
    inside: bool
    mesh: Any
