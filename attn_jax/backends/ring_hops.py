"""What a device of a ring does: meet the blocks of keys that come to it, one after another.

How derivatives stay exact at memory linear in what a device holds. Blocks are not handed on from
neighbour to neighbour: reverse mode would have to keep what arrived at each hop, until every device kept
every key. At each hop a device receives, from as many places before it, what is held there, under
``jax.checkpoint``: reverse mode receives it again, and sends the block's gradient back to where it is
held. Sums over blocks are then sums over loop-invariant arrays, and a softmax is differentiated by them
as ``streaming`` says. As many blocks are sent as would be handed on; where wires form a ring, by longer
ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import full_like

from attn_jax.backends.blockwise import join
from attn_jax.backends.problem import Problem
from attn_jax.backends.ring_shards import Shards
from attn_jax.backends.streaming import softmax_by_sums, softmax_rows, weighted_rows
from attn_jax.backends.tile_kernel import Kernel, Operands, cut_up, hoist
from attn_jax.backends.tile_list import default_tile, tile_list
from attn_jax.backends.token_arrays import axes_of, flags_for_lengths
from attn_jax.backends.varying import alike, expect_alike
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.tiles import Blocks, Cut, Positions, Range
from attn_jax.functional.value import Array


class Hops:
    """A problem taken apart for the devices of a ring.

    Args:
      problem: of whole arrays, or of this device's parts of them.
      shards: how the sequence is dealt out.
      tile: queries and keys in a tile, or None.
      inside: whether we are on one of the devices.

    Attributes:
      leaves: the arrays of the problem.
      along: what each of them runs along.
      captured: what the functions of the rule close over, one by one.
      distances: how many places the blocks that are looked at have travelled.
    """

    def __init__(
        self, problem: Problem, shards: Shards, tile: tuple[int, int] | None, inside: bool
    ) -> None:
        axes, parts = problem.axes, 1 if inside else shards.devices
        self.shards, self.inside = shards, inside
        self.batch, self.t, self.s = len(axes.batch), axes.t // parts, axes.s // parts
        self.tile = tile or default_tile(axes._replace(t=self.t, s=self.s))
        self.distances = distances(problem, shards, inside)
        keys = jnp.arange(axes.s)
        if inside:
            keys = keys + shards.here() * axes.s
        problem = problem.replace(rule=flags_for_lengths(problem.rule, keys))
        self.along = axes_of(problem)
        leaves, self.structure = jax.tree.flatten(problem)
        self.leaves = [
            leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf) for leaf in leaves
        ]

        self.softmax = isinstance(problem.rule.normalizer, softmax)
        self.captured = [] if inside else self._closed_over()

    def on_device(self, leaves: list[Any], captured: list[Any]) -> tuple[Array, Array]:
        """For this device's queries: averages `*b t h e` and log-sum-exps `*b h t`, or plain sums."""
        deal, collect = self.shards.deal, self.shards.collect
        leaves, here = alike((leaves, self.shards.here()))
        leaves = [
            x if along.sharded is None else deal(x, along.sharded)
            for x, along in zip(leaves, self.along, strict=True)
        ]
        given = dict(zip(map(id, self.captured), captured, strict=True))
        operands = leaves, self._hoist(leaves, here, given), here
        rows = (softmax_by_sums(self._merge, self._sum) if self.softmax else self._sum)(operands)
        y, sums = join(Cut(self.t, min(self.tile[0], self.t)), self.batch, *rows)
        return collect(y, self.batch), collect(sums, self.batch + 1)

    def _hoist(self, leaves: list[Any], here: Array, given: dict[int, Any]) -> list[Any]:
        """Makes pure functions of what is done with a block; returns what they close over."""
        example: Any = leaves, self._travellers(leaves), here, here
        captured = []
        if self.softmax:
            self._online, closed_over = hoist(self._averages_of, *example)
            captured.append(closed_over)
            example = *example, jax.eval_shape(self._online, closed_over, *example)[1]
        self._sums, closed_over = hoist(self._sums_of, *example)
        captured.append(closed_over)
        self._like = jax.eval_shape(self._sums, closed_over, *example)
        expect_alike(closed_over, here)
        return [[given.get(id(x), x) for x in some] for some in captured]

    def _closed_over(self) -> list[Any]:
        """Traced arrays that the rule's functions close over, to be handed to the devices."""
        local = [
            jax.ShapeDtypeStruct(along.part_of(x.shape, self.shards.devices), x.dtype)
            for x, along in zip(self.leaves, self.along, strict=True)
        ]
        number = jax.ShapeDtypeStruct((), jnp.int32)
        of_block = self._averages_of if self.softmax else self._sums_of
        _, closed_over = hoist(of_block, local, self._travellers(local), number, number)
        return [x for x in closed_over if isinstance(x, jax.core.Tracer)]

    def _merge(self, operands: Any) -> tuple[Array, Array]:
        """Averages of each block, weighed by their log-sum-exps; not differentiated."""

        def step(so_far: tuple[Array, Array], number: Array) -> tuple[Any, None]:
            leaves, captured, here = operands
            block = self._fetch(number, leaves, here)
            return merge(so_far, self._online(captured[0], leaves, *block)), None

        y, lse = self._like
        start = full_like(y, 0), full_like(lse, -jnp.inf)
        return jax.lax.scan(step, start, jnp.arange(len(self.distances)))[0]

    def _sum(self, operands: Any, *shift: Array) -> tuple[Array, Array]:
        """Sums over all blocks; each is fetched again when it is differentiated."""

        def of_block(number: Array, operands: Any, *shift: Array) -> Any:
            leaves, captured, here = operands
            block = self._fetch(number, leaves, here)
            return self._sums(captured[-1], leaves, *block, *shift)

        once = jax.checkpoint(of_block, prevent_cse=False)

        def add(sums: Any, number: Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, once(number, operands, *shift)), None

        zeros = jax.tree.map(lambda x: full_like(x, 0), self._like)
        return jax.lax.scan(add, zeros, jnp.arange(len(self.distances)))[0]

    def _fetch(self, number: Array, leaves: list[Any], here: Array) -> tuple[Any, Array, Array]:
        """The block of hop `number`; this device, and the one that the block comes from."""
        hops = [lambda x, d=d: self.shards.forward(x, d) for d in self.distances]
        blocks = jax.lax.switch(number, hops, self._travellers(leaves))
        there = (here - jnp.asarray(self.distances, jnp.int32)[number]) % self.shards.devices
        return blocks, here, there

    def _travellers(self, leaves: list[Any]) -> list[Any]:
        return [x for x, along in zip(leaves, self.along, strict=True) if along.travels]

    def _block(self, leaves: list[Any], blocks: list[Any], here: Any, there: Any) -> Problem:
        """This device's queries and a block of keys, as a problem of its own."""
        arrived = iter(blocks)
        parts = []
        for x, along in zip(leaves, self.along, strict=True):
            if along.travels:
                x = next(arrived)
            elif along.keys is not None:
                x = self.shards.take(x, there, self.s, along.keys)
            parts.append(x)
        problem: Problem = jax.tree.unflatten(self.structure, parts)
        q, k, dropout = problem.positions.q, problem.positions.k, problem.dropout
        positions = Positions(self._placed(q, here, self.t), self._placed(k, there, self.s))
        if dropout is not None:
            queries, keys = (self.shards.indices(*x) for x in ((here, self.t), (there, self.s)))
            dropout = _Placed(dropout.rate, dropout.rng, dropout.site, queries, keys)
        return problem.replace(positions=positions, dropout=dropout)

    def _placed(self, positions: Any, device: Any, size: int) -> Any:
        """A device's part of positions that are a range; arrays have been cut already."""
        if not isinstance(positions, Range):
            return positions
        start = (_of_whole(positions, self.shards) if self.inside else positions).start
        starts = self.shards.starts(device, size)
        if len(starts) == 1:
            return Range(start + starts[0], size)
        return start + self.shards.indices(device, size)

    def _averages_of(self, *block: Any) -> tuple[Array, Array]:
        return self._where_live(self._block(*block), softmax_rows, (0, -jnp.inf))

    def _sums_of(self, leaves: Any, blocks: Any, here: Any, there: Any, *shift: Array) -> Any:
        problem = self._block(leaves, blocks, here, there)
        mass = jnp.exp if shift else problem.rule.normalizer.mass

        def rows(kernel: Kernel, operands: Operands) -> tuple[Array, Array]:
            return weighted_rows(kernel, operands, mass, *shift)

        return self._where_live(problem, rows, (0, 0))

    def _where_live(
        self, problem: Problem, rows: Callable[..., Any], otherwise: tuple[float, float]
    ) -> Any:
        """Rows of a block, or what stands for them where no query of this device looks at it."""
        tiles = tile_list(problem, self.tile)

        def compute() -> Any:
            return rows(*cut_up(problem, tiles))

        live = tiles.partial.live
        if live is None or tiles.full.size:
            return compute()
        like = jax.eval_shape(compute)
        nothing = tuple(full_like(x, fill) for x, fill in zip(like, otherwise, strict=True))
        return jax.lax.cond(live.any(), compute, lambda: nothing)


class _Placed(Dropout):
    """Dropout on a part of the weights; the indices in the whole of its queries and of its keys."""

    queries: Any = None
    keys: Any = None

    def on_weights(self, weights: Array, heads: Any, queries: Any, keys: Any) -> Array:
        queries = jnp.take(self.queries, queries, mode="clip")
        keys = jnp.take(self.keys, keys, mode="clip")
        return super().on_weights(weights, heads, queries, keys)


def merge(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Averages `… e` and log-sum-exps `…` of two sets of keys, as of their union."""
    highest = jnp.maximum(a[1], b[1])
    shift = jnp.where(highest == -jnp.inf, 0, highest)
    masses = jnp.exp(a[1] - shift), jnp.exp(b[1] - shift)
    total = masses[0] + masses[1]
    seen = total > 0
    total = jnp.where(seen, total, 1)
    shares = [(mass / total)[..., None] for mass in masses]
    lse = jnp.where(seen, jnp.log(total) + shift, -jnp.inf)
    return a[0] * shares[0] + b[0] * shares[1], lse


def distances(problem: Problem, shards: Shards, inside: bool) -> tuple[int, ...]:
    """How far blocks must travel: the distances at which some device looks at what another holds.

    Known while tracing, from what the mask says of positions that are ranges and of numpy arrays.
    """
    positions, (t, s) = problem.positions, problem.axes[-2:]
    chunks = shards.devices * shards.chunks
    if inside:
        others = axes_of(problem)[2 + len(jax.tree.leaves(problem.k)) :]
        if any(along.sharded is not None for along in others):
            return tuple(range(shards.devices))  # what one device has of a mask is not all of it
        t, s = t * shards.devices, s * shards.devices
        positions = Positions(*(_of_whole(p, shards) for p in (positions.q, positions.k)))
    blocks = Blocks(Cut(t, t // chunks), Cut(s, s // chunks), positions, static=True)
    may = np.asarray(problem.rule.mask.bounds(blocks).may)
    may = np.broadcast_to(may.any(tuple(range(may.ndim - 2))), (chunks, chunks))
    looking, looked_at = (shards.holders()[chunk] for chunk in np.nonzero(may))
    found = set(((looking - looked_at) % shards.devices).tolist())
    return tuple(sorted(found)) or (0,)


def _of_whole(positions: Any, shards: Shards) -> Range:
    """The positions that the range of one device's part stands for, where t and s are cut alike."""
    assert isinstance(positions, Range)
    return Range(positions.start * shards.devices, positions.size * shards.devices)
