"""Tiles of the score matrix, one after another: exact, at memory linear in the lengths."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from attn_jax.backends.backend import Backend
from attn_jax.backends.dense import dense
from attn_jax.backends.problem import Problem
from attn_jax.backends.streaming import softmax_rows, weighted_rows
from attn_jax.backends.tile_kernel import cut_up, from_blocks
from attn_jax.backends.tile_list import TileList, default_tile, tile_list
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.value import Array


class blockwise(Backend):
    r"""Only the tiles that some query looks at, with O(t + s) memory forward and backward.

    .. math:: \ell_i = \ln \sum_B \sum_{j \in B} e^{s_{ij}}, \quad
              y_i = \sum_B \sum_{j \in B} e^{s_{ij} - \ell_i} v_j

    The sums over the blocks B of keys run one block after another. Exact for any score, mask, bias and
    transform, any length, every order of derivative.

    Args:
      tile: queries and keys in a tile; None for what suits the platform.

    References: Milakov and Gimelshein (2018), algorithm 3; Rabe and Staats (2021); Dao et al. (2022).

    >>> blockwise(tile=(128, 256))
    blockwise((128, 256))
    """

    tile: tuple[int, int] | None = None

    def refuses(self, problem: Problem) -> str | None:
        return problem.rule.normalizer.cannot_stream()

    def suits(self, problem: Problem) -> bool:
        # Below, tiles save little (at 512 × 512 a third of the forward pass) and compile more slowly.
        return problem.axes.t * problem.axes.s > 512 * 512

    def cost(self, problem: Problem) -> str:
        tiles = self.tiles(problem)
        full, partial = tiles.full.size, tiles.partial.size
        size = f"{tiles.queries.size} × {tiles.keys.size}"
        now = "" if tiles.partial.live is None else "; more are left out at run time"
        return f"visits {full + partial} of {tiles.total} tiles of {size}, {full} unmasked{now}"

    def tiles(self, problem: Problem) -> TileList:
        """The tiles it visits."""
        return tile_list(problem, self.tile or default_tile(problem.axes))

    def attend(self, problem: Problem) -> Array:
        if 0 in (problem.axes.t, problem.axes.s):
            return dense().attend(problem)  # no score at all
        normalizer = problem.rule.normalizer
        if isinstance(normalizer, softmax):
            return self.attend_with_lse(problem)[0]
        tiles = self.tiles(problem)
        sums = weighted_rows(*cut_up(problem, tiles), normalizer.mass)
        y, total = _join(problem, tiles, *sums)
        return normalizer.normalise(y, jnp.swapaxes(total, -1, -2)[..., None]).astype(
            _dtype_of(problem.v)
        )

    def attend_with_lse(self, problem: Problem) -> tuple[Array, Array]:
        if 0 in (problem.axes.t, problem.axes.s):
            return dense().attend_with_lse(problem)
        normalizer = problem.rule.normalizer
        assert isinstance(normalizer, softmax)
        tiles = self.tiles(problem)
        y, lse = _join(problem, tiles, *softmax_rows(*cut_up(problem, tiles)))
        y, lse = normalizer.with_sink(y, lse)
        return y.astype(_dtype_of(problem.v)), lse


def _join(problem: Problem, tiles: TileList, y: Array, rows: Array) -> tuple[Array, Array]:
    """Blocks `n *b h t e` and `n *b h t` as `*b t h e` and `*b h t`."""
    batch = len(problem.axes.batch)
    rows = from_blocks(rows, tiles.queries, batch)
    return from_blocks(y, tiles.queries, batch), jnp.swapaxes(rows, -1, -2)


def _dtype_of(v: Array | None) -> Any:
    assert v is not None
    return v.dtype
