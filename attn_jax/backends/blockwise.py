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
from attn_jax.backends.varying import alike
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.tiles import Cut
from attn_jax.functional.value import Array


class Streaming(Backend):
    """A backend that sums over the keys of each query."""

    def rows(self, problem: Problem) -> tuple[Array, Array]:
        """Averages of values `*b t h e` and log-sum-exps `*b h t`, without a sink, for a softmax.

        For another normalizer the sums of mass times value, and of mass.
        """
        raise NotImplementedError

    def attend(self, problem: Problem) -> Array:
        if 0 in (problem.axes.t, problem.axes.s):
            return dense().attend(problem)  # no score at all
        normalizer = problem.rule.normalizer
        if isinstance(normalizer, softmax):
            return self.attend_with_lse(problem)[0]
        y, total = self.rows(problem)
        y = normalizer.normalise(y, jnp.swapaxes(total, -1, -2)[..., None])
        return y.astype(_dtype(problem))

    def attend_with_lse(self, problem: Problem) -> tuple[Array, Array]:
        if 0 in (problem.axes.t, problem.axes.s):
            return dense().attend_with_lse(problem)
        normalizer = problem.rule.normalizer
        assert isinstance(normalizer, softmax)
        y, lse = normalizer.with_sink(*self.rows(problem))
        return y.astype(_dtype(problem)), lse


def _dtype(problem: Problem) -> Any:
    assert problem.v is not None
    return problem.v.dtype


class blockwise(Streaming):
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

    def rows(self, problem: Problem) -> tuple[Array, Array]:
        problem = alike(problem)
        tiles = self.tiles(problem)
        kernel, operands = cut_up(problem, tiles)
        normalizer = problem.rule.normalizer
        if isinstance(normalizer, softmax):
            rows = softmax_rows(kernel, operands)
        else:
            rows = weighted_rows(kernel, operands, normalizer.mass)
        return join(tiles.queries, len(problem.axes.batch), *rows)


def join(queries: Cut, batch: int, y: Array, rows: Array) -> tuple[Array, Array]:
    """Blocks of queries `n *b h t e` and `n *b h t` as `*b t h e` and `*b h t`."""
    rows = from_blocks(rows, queries, batch)
    return from_blocks(y, queries, batch), jnp.swapaxes(rows, -1, -2)
