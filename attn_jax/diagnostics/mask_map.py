"""A picture of a mask, and of the tiles that a blockwise backend skips, masks or takes whole."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from attn_jax.functional.mask import Mask
from attn_jax.functional.tiles import Blocks, Cut, Positions

SKIPPED, PARTIAL, FULL = range(3)
NAMES = ("skipped", "partial", "full")
HIDDEN = ("#FFFFFF", "#FBE3C2", "#0072B2")  # of entries that are False, by the kind of their tile
SEEN = ("#FFFFFF", "#E69F00", "#0072B2")
SIDE = 4.6  # inches


def mask_map(
    mask: Mask, t: int, s: int | None = None, *, tile: int = 16, title: str = ""
) -> Figure:
    """Which query may look at which key, in the tiles it is cut into.

    Tiles that nobody looks at are white and never computed; full ones need no masking; of partial
    ones the visible entries are darker. The kinds are those that the mask's bounds promise, which may
    call a tile partial that is not, and never the other way round.

    Args:
      mask: of one batch row and one head, or the same for all.
      t: queries.
      s: keys; as many as queries by default.
      tile: side of a tile.
      title: a heading; the mask as text by default.

    Returns:
      A figure of its own, in no global list; `plots.save` writes it.

    Raises:
      ValueError: the mask differs between batch rows or heads, or does not fit.

    >>> from attn_jax import masks
    >>> figure = mask_map(masks.causal(), 64)
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['6 skipped', '4 partial', '6 full']
    """
    s = t if s is None else s
    entries = np.asarray(mask.dense(t, s))
    if any(n != 1 for n in entries.shape[:-2]):
        raise ValueError(
            f"expected a mask of one batch row and one head, t s; {mask!r} is {entries.shape}"
        )
    entries = entries.reshape(t, s)
    kinds = tile_kinds(mask, t, s, tile)
    of_entry = kinds.repeat(tile, 0)[:t].repeat(tile, 1)[:, :s]
    colours = np.array([[_rgb(x) for x in side] for side in (HIDDEN, SEEN)])
    figure = Figure((SIDE + 0.2, SIDE * min(max(t / s, 0.4), 2.5) + 0.9), layout="constrained")
    axes = figure.subplots()
    axes.imshow(colours[entries.astype(int), of_entry], interpolation="nearest", aspect="auto")
    for edge in range(0, t + 1, tile):
        axes.axhline(edge - 0.5, color="0.8", lw=0.5)
    for edge in range(0, s + 1, tile):
        axes.axvline(edge - 0.5, color="0.8", lw=0.5)
    axes.set_xlabel("key", fontsize=8)
    axes.set_ylabel("query", fontsize=8)
    axes.tick_params(labelsize=7)
    counts = np.bincount(kinds.ravel(), minlength=3)
    patches = [
        Patch(fc=SEEN[kind], ec="0.6", label=f"{counts[kind]} {NAMES[kind]}")
        for kind in (SKIPPED, PARTIAL, FULL)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    axes.set_title(title or repr(mask), fontsize=9, parse_math=False, wrap=True)
    return figure


def tile_kinds(mask: Mask, t: int, s: int, tile: int) -> np.ndarray:
    """0 for a tile that nobody looks at, 1 for a partial one, 2 for a full one: `nq nk`.

    >>> from attn_jax import masks
    >>> tile_kinds(masks.window(1, 0), 6, 6, 2)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    if tile < 1:
        raise ValueError(f"expected a tile of at least 1, got {tile}")
    blocks = Blocks(Cut(t, tile), Cut(s, tile), Positions.aligned("start", t, s))
    bounds = mask.bounds(blocks)
    shape = (len(blocks.queries), len(blocks.keys))
    may, must = (
        np.broadcast_to(np.asarray(x), (*np.shape(x)[:-2], *shape)).reshape(-1, *shape)
        for x in bounds
    )
    return np.where(must.all(0), FULL, np.where(may.any(0), PARTIAL, SKIPPED))


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
