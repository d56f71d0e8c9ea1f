"""Windows: images `*b y x c` cut into squares that look inside themselves, and what goes with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attn_jax.functional.biases import relative_2d
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything, segments
from attn_jax.functional.rule import Rule
from attn_jax.modules.attention import initializer
from attn_jax.modules.block_options import BlockOptions
from attn_jax.modules.sublayers import FeedForward
from attn_jax.modules.trainable import trainable

Array = jax.Array


class Windows(NamedTuple):
    """How an image of one size is cut into square windows.

    The image is first padded below and on the right with 0 to a multiple of the window, then rolled
    up and to the left, so that windows straddle the borders of unrolled ones. What is rolled out on
    one side comes in on the other, where it is a region of its own: :meth:`mask` keeps the regions of
    a window apart.

    Args:
      height, width: of the image, in cells.
      window: of a side of a window, in cells.
      shift: how far it is rolled, in cells; 0 for not at all.

    Reference: Liu et al. (2021, Swin), figures 2 and 4.

    >>> x = jnp.arange(16.0).reshape(1, 4, 4, 1)
    >>> windows = Windows(4, 4, window=2, shift=1)
    >>> windows.cut(x)[0, :, :, 0]
    Array([[ 5.,  6.,  9., 10.],
           [ 7.,  4., 11.,  8.],
           [13., 14.,  1.,  2.],
           [15., 12.,  3.,  0.]], dtype=float32)
    >>> windows.regions
    array([[0, 0, 0, 0],
           [1, 2, 1, 2],
           [3, 3, 6, 6],
           [4, 5, 7, 8]])
    """

    height: int
    width: int
    window: int
    shift: int = 0

    @property
    def padded(self) -> tuple[int, int]:
        """Height and width after padding."""
        rows, columns = (-(-n // self.window) for n in (self.height, self.width))
        return rows * self.window, columns * self.window

    def cut(self, x: Array) -> Array:
        """`*b y x c` to `*b w t c`: w windows, from left to right and down, of t cells."""
        (y, x_), batch = self.padded, [(0, 0)] * (x.ndim - 3)
        x = jnp.pad(x, [*batch, (0, y - self.height), (0, x_ - self.width), (0, 0)])
        x = jnp.roll(x, (-self.shift, -self.shift), (-3, -2)) if self.shift else x
        return self._cut(x)

    def join(self, windows: Array) -> Array:
        """`*b w t c` back to `*b y x c`; what stood in the padding is lost."""
        *batch, _, _, c = windows.shape
        (y, x), n = self.padded, self.window
        windows = windows.reshape(*batch, y // n, x // n, n, n, c)
        image = jnp.swapaxes(windows, -4, -3).reshape(*batch, y, x, c)
        image = jnp.roll(image, (self.shift, self.shift), (-3, -2)) if self.shift else image
        return image[..., : self.height, : self.width, :]

    @property
    def regions(self) -> np.ndarray:
        """Which region each cell comes from: `w t`, 0 where nothing was rolled in."""
        rows, columns = (
            (np.arange(n) >= n - self.window).astype(int) + (np.arange(n) >= n - self.shift)
            for n in self.padded
        )
        return self._cut((3 * rows[:, None] + columns)[..., None])[..., 0]

    def mask(self) -> Mask:
        """Cells of a window that come from the same region, for a batch of windows, `*b w`."""
        return segments(self.regions) if self.shift else everything()

    def _cut(self, x: Any) -> Any:
        *batch, y, x_, c = x.shape
        n = self.window
        x = x.reshape(*batch, y // n, n, x_ // n, n, c).swapaxes(-4, -3)
        return x.reshape(*batch, -1, n * n, c)


class PatchMerging(nnx.Module):
    """Every 2 × 2 cells become one of twice as many channels; an odd side is padded with 0.

    Args:
      width: m, channels that come in.
      rngs: where the initial parameters come from.

    Reference: Liu et al. (2021, Swin), section 3.1.

    >>> images = jnp.ones((1, 5, 4, 8))
    >>> jax.eval_shape(lambda x: PatchMerging(8, rngs=nnx.Rngs(0))(x), images).shape
    (1, 3, 2, 16)
    """

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(4 * width, epsilon=1e-5, rngs=rngs)
        self.reduction = nnx.Linear(
            4 * width, 2 * width, use_bias=False, kernel_init=initializer, rngs=rngs
        )

    def __call__(self, x: Array) -> Array:
        """`b y x m` to `b ⌈y/2⌉ ⌈x/2⌉ 2m`."""
        b, y, x_, m = x.shape
        x = jnp.pad(x, [(0, 0), (0, y % 2), (0, x_ % 2), (0, 0)])
        x = x.reshape(b, -(-y // 2), 2, -(-x_ // 2), 2, m)
        x = x.transpose(0, 1, 3, 4, 2, 5)  # of a square: down, then to the right
        return self.reduction(self.norm(x.reshape(*x.shape[:3], 4 * m)))


class WindowBlock(nnx.Module):
    """Attention inside windows, then a feed-forward network; each normalised first.

    The attention's rule has the learned bias of the offset between two cells of a window; its mask
    keeps apart what a shift brought together.

    Args:
      options: the sizes.
      window: of a window's side, in cells.
      shifted: whether windows are shifted by half of a window.
      depth_dropout: rate at which a branch is left out of an image, where a call has a source of
        draws.
      rngs: where the initial parameters come from.

    Reference: Liu et al. (2021, Swin), equations 3 and 4; stochastic depth: Huang et al. (2016).
    """

    def __init__(
        self,
        options: BlockOptions,
        window: int,
        shifted: bool,
        depth_dropout: float = 0.0,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        self.window, self.shifted, self.depth_dropout = window, shifted, depth_dropout
        offsets = (2 * window - 1) ** 2
        table = 0.02 * jax.random.normal(rngs.params(), (offsets, options.heads))
        rule = trainable(Rule(bias=relative_2d(table, (window, window))))
        self.attention_norm = options.layer_norm(rngs)
        self.self_attention = options.attention(rule, rngs)
        self.feed_forward_norm = options.layer_norm(rngs)
        self.feed_forward = FeedForward(options, rngs=rngs)

    def __call__(self, x: Array, *, noise: Dropout | None = None) -> Array:
        """`b y x m` to `b y x m`."""
        windows = self.windows_of(*x.shape[1:3])
        y = self.self_attention(windows.cut(self.attention_norm(x)), mask=windows.mask())
        x = x + self._kept(windows.join(y), noise and noise.at(0))
        return x + self._kept(self.feed_forward(self.feed_forward_norm(x)), noise and noise.at(1))

    def windows_of(self, height: int, width: int) -> Windows:
        """How an image is cut; one window that holds all is not shifted."""
        shift = self.window // 2 if self.shifted and min(height, width) > self.window else 0
        return Windows(height, width, self.window, shift)

    def _kept(self, branch: Array, noise: Dropout | None) -> Array:
        if noise is None or not self.depth_dropout:
            return branch
        ones = jnp.ones((branch.shape[0], 1, 1), branch.dtype)
        return branch * noise.at(0, self.depth_dropout).on_features(ones)[..., None]
