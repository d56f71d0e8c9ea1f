"""Random mask expressions, each beside its entries written down in numpy."""

import dataclasses
import operator

import numpy as np
from hypothesis import strategies as st

from attn_jax import Positions, masks

BATCH, HEADS = 2, 2
OPERATORS = (operator.and_, operator.or_, operator.xor)


@dataclasses.dataclass
class Setting:
    """t queries and s keys, with positions; `i` and `j` broadcast against `b h t s`."""

    t: int
    s: int
    positions: Positions | None
    i: np.ndarray
    j: np.ndarray

    @property
    def shape(self):
        return BATCH, HEADS, self.t, self.s


@st.composite
def settings_of(draw, sizes):
    """Positions as indices, aligned at the end, unsorted, or another order in each row."""
    t, s = draw(sizes)
    kind = draw(st.sampled_from(["none", "end", "unsorted", "per row"]))
    if kind == "none":
        q, k, positions = np.arange(t), np.arange(s), None
    elif kind == "end":
        q, k, positions = np.arange(s - t, s), np.arange(s), "end"
    else:
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        rows = (BATCH,) if kind == "per row" else ()
        q, k = rng.integers(-3, s + 3, (*rows, t)), rng.integers(-3, s + 3, (*rows, s))
        positions = Positions(q, k)
    return Setting(t, s, positions, q[..., None, :, None], k[..., None, None, :])


def leaf(draw, where):
    """A mask without operators, and its entries, `b h t s`."""
    name = draw(st.sampled_from(sorted(LEAVES)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    mask, entries = LEAVES[name](rng, where)
    return mask, np.broadcast_to(entries, where.shape)


@st.composite
def expressions(draw, where, depth=2):
    """A mask of up to 2**depth leaves, and its entries, `b h t s`."""
    if depth == 0 or draw(st.booleans()):
        mask, entries = leaf(draw, where)
    else:
        combine = draw(st.sampled_from(OPERATORS))
        (a, of_a), (b, of_b) = (draw(expressions(where, depth - 1)) for _ in range(2))
        mask, entries = combine(a, b), combine(of_a, of_b)
    return (~mask, ~entries) if draw(st.booleans()) else (mask, entries)


def _everything(rng, w):
    return masks.everything(), np.True_


def _causal(rng, w):
    offset = int(rng.integers(-3, 4))
    return masks.causal(offset), w.j <= w.i + offset


def _window(rng, w):
    before, after = (int(n) for n in rng.integers(-1, 4, 2))
    return masks.window(before, after), (w.j - w.i >= -before) & (w.j - w.i <= after)


def _band(rng, w):
    low, high = (None if rng.random() < 0.3 else int(n) for n in rng.integers(-4, 5, 2))
    entries = (low is None or w.j - w.i >= low) & np.asarray(high is None or w.j - w.i <= high)
    return masks.band(low, high), entries


def _diagonal(rng, w):
    return masks.diagonal(), w.i == w.j


def _prefix(rng, w):
    n = rng.integers(-1, w.s + 2, (BATCH,)) if rng.random() < 0.5 else int(rng.integers(0, w.s))
    return masks.prefix(n), w.j < np.asarray(n)[..., None, None, None]


def _stride(rng, w):
    n = int(rng.integers(1, 5))
    return masks.stride(n), (w.i - w.j) % n == 0


def _same_block(rng, w):
    n = int(rng.integers(1, 5))
    return masks.same_block(n), w.i // n == w.j // n


def _where(rng, w):
    return masks.where(lambda i, j: (i + 2 * j) % 3 == 0), (w.i + 2 * w.j) % 3 == 0


def _where_bound(rng, w):
    limit = int(rng.integers(0, 9))

    def bound(i_low, i_high, j_low, j_high):
        return i_low + j_low < limit, i_high + j_high < limit

    return masks.where(lambda i, j: i + j < limit, bound), w.i + w.j < limit


def _rows(rng):
    return (BATCH,) if rng.random() < 0.5 else ()


def _valid(rng, w):
    array = rng.random((*_rows(rng), w.s)) < 0.6
    return masks.valid(array), array[..., None, None, :]


def _lengths(rng, w):
    n = rng.integers(0, w.s + 2, _rows(rng))
    return masks.lengths(n), np.arange(w.s) < n[..., None, None, None]


def _segments(rng, w):
    q, k = (np.sort(rng.integers(-1, 3, (*_rows(rng), n))) for n in (w.t, w.s))
    a, b = q[..., None, :, None], k[..., None, None, :]
    return masks.segments(q, k), (a == b) & (a >= 0)


def _global_tokens(rng, w):
    q, k = (rng.random((*_rows(rng), n)) < 0.2 for n in (w.t, w.s))
    which = rng.integers(3)
    entries = np.zeros(w.shape, bool)
    if which != 1:
        entries = entries | q[..., None, :, None]
    if which != 0:
        entries = entries | k[..., None, None, :]
    return masks.global_tokens(None if which == 1 else q, None if which == 0 else k), entries


def _explicit(rng, w):
    b, h, t, s = w.shape
    shapes = [(s,), (t, s), (t, 1), (h, t, s), (b, 1, t, s), (b, 1, 1, s), (1, h, 1, s)]
    array = rng.random(shapes[rng.integers(len(shapes))]) < 0.6
    return masks.explicit(array), array


def _per_head(rng, w):
    same = [LEAVES[n] for n in ("causal", "window", "valid", "stride", "segments", "where")]
    members = [same[rng.integers(len(same))](rng, w) for _ in range(HEADS)]
    one_head = (BATCH, 1, w.t, w.s)
    entries = np.concatenate([np.broadcast_to(e, one_head) for _, e in members], axis=1)
    return masks.per_head([m for m, _ in members]), entries


LEAVES = {
    name.removeprefix("_"): function
    for name, function in list(globals().items())
    if name.startswith("_") and callable(function) and function.__module__ == __name__
    and name not in ("_rows",)
}  # fmt: skip
