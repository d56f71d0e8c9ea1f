"""Laws of the mask algebra: what holds of every expression, whatever it is made of."""

import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as drawn
from hypothesis import strategies as st

from attn_jax import Positions, masks
from attn_jax.functional.mask import Axes
from attn_jax.functional.tiles import Blocks, Cut, Range, whole
from tests.functional.mask_expressions import BATCH, HEADS, LEAVES, expressions, settings_of

SIZES = st.just((5, 7))
TILES = st.tuples(st.integers(1, 8), st.integers(1, 8))


def grown(entries, setting):
    return np.broadcast_to(np.asarray(entries), setting.shape)


def by_block(operation, entries, tile):
    """any or all of each tile of `… t s`."""
    for axis, size in ((-2, tile[0]), (-1, tile[1])):
        starts = range(0, entries.shape[axis], size)
        blocks = [entries.take(range(n, min(n + size, entries.shape[axis])), axis) for n in starts]
        entries = np.stack([operation(block, axis) for block in blocks], axis)
    return entries


def assert_never_wrong(bounds, entries, tile):
    may, must = (np.broadcast_to(x, (*entries.shape[:2], *np.shape(x)[-2:])) for x in bounds)
    some, every = by_block(np.any, entries, tile), by_block(np.all, entries, tile)
    assert may.shape == some.shape
    assert (may | ~some).all(), "a tile with a True entry was said to have none"
    assert (every | ~must).all(), "a tile with a False entry was said to have none"


@st.composite
def problems(draw, sizes=SIZES):
    setting = draw(settings_of(sizes))
    return setting, *draw(expressions(setting))


@given(problems())
@drawn(max_examples=40)
def test_operators_combine_masks_as_they_combine_their_entries(problem):
    setting, mask, entries = problem
    dense = mask.dense(setting.t, setting.s, setting.positions)
    assert dense.dtype == bool
    np.testing.assert_array_equal(grown(dense, setting), entries)


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_each_leaf_is_what_its_formula_says(name):
    @given(settings_of(SIZES), st.integers(0, 99))
    @drawn(max_examples=8)
    def check(setting, seed):
        mask, entries = LEAVES[name](np.random.default_rng(seed), setting)
        dense = mask.dense(setting.t, setting.s, setting.positions)
        np.testing.assert_array_equal(grown(dense, setting), grown(entries, setting))

    check()


@given(problems(), st.data())
@drawn(max_examples=6)
def test_de_morgan(problem, data):
    setting, a, _ = problem
    b, _ = data.draw(expressions(setting))
    where = (setting.t, setting.s, setting.positions)
    for one, other in ((~(a & b), ~a | ~b), (~(a | b), ~a & ~b), (a ^ b, (a | b) & ~(a & b))):
        np.testing.assert_array_equal(
            grown(one.dense(*where), setting), grown(other.dense(*where), setting)
        )
    assert (~~a).dense(*where).shape == a.dense(*where).shape


@given(problems(sizes=st.tuples(st.integers(1, 12), st.integers(1, 12))), TILES)
@drawn(max_examples=300)
def test_bounds_are_never_wrong(problem, tile):
    setting, mask, entries = problem
    assert_never_wrong(mask.block_map(setting.t, setting.s, tile, setting.positions), entries, tile)
    positions = whole(setting.t, setting.s, setting.positions).positions
    blocks = Blocks(Cut(setting.t, tile[0]), Cut(setting.s, tile[1]), positions, static=True)
    known = mask.bounds(blocks)
    assert all(isinstance(x, np.ndarray | np.generic) for x in known), "known while tracing"
    shape = (len(blocks.queries), len(blocks.keys))
    known = [np.broadcast_to(x, np.broadcast_shapes(np.shape(x), shape)) for x in known]
    assert_never_wrong(known, entries, tile)


@given(problems(sizes=st.just((5, 7))), st.just((2, 3)))
@drawn(max_examples=15)
def test_bounds_of_arrays_unknown_while_tracing_are_never_wrong(problem, tile):
    setting, mask, entries = problem
    positions = whole(setting.t, setting.s, setting.positions).positions
    mask, positions = jax.tree.map(jnp.asarray, (mask, positions))
    if isinstance(positions.q, Range):  # its start may be traced, as in decoding
        positions = Positions(
            positions.q.replace(start=jnp.asarray(positions.q.start)), positions.k
        )
    assert_never_wrong(mask.block_map(setting.t, setting.s, tile, positions), entries, tile)


@given(problems(sizes=st.just((5, 7))))
@drawn(max_examples=10)
def test_a_traced_mask_is_the_same_mask(problem):
    setting, mask, entries = problem
    tile = (2, 3)
    arrays = None if isinstance(setting.positions, str) else setting.positions

    @jax.jit
    def traced(mask, arrays):
        positions = setting.positions if arrays is None else arrays
        known = Blocks(Cut(5, 2), Cut(7, 3), whole(5, 7, positions).positions, static=True)
        assert not any(isinstance(x, jax.core.Tracer) for x in mask.bounds(known))
        return mask.dense(5, 7, positions), mask.block_map(5, 7, tile, positions)

    dense, bounds = traced(mask, arrays)
    np.testing.assert_array_equal(grown(dense, setting), entries)
    assert_never_wrong(bounds, entries, tile)


@given(problems(sizes=st.just((5, 7))), st.sampled_from([(0, 2), (2, 2), (3, 2)]), st.booleans())
@drawn(max_examples=15)
def test_a_tile_holds_the_entries_of_its_place(problem, start, traced):
    setting, mask, entries = problem
    place = [jnp.asarray(n) if traced else n for n in start]
    tile = whole(5, 7, setting.positions).part(Range(place[0], 2), Range(place[1], 3))
    part = entries[..., start[0] : start[0] + 2, start[1] : start[1] + 3]
    np.testing.assert_array_equal(np.broadcast_to(mask.allowed(tile), part.shape), part)


@given(problems(sizes=st.just((5, 7))))
@drawn(max_examples=30)
def test_a_mask_prints_as_it_is_written(problem):
    setting, mask, entries = problem
    assume(not any(shown in repr(mask) for shown in ("bool[", "int64[", "lambda")))
    again = eval(repr(mask), {name: getattr(masks, name) for name in masks.__all__})
    dense = again.dense(setting.t, setting.s, setting.positions)
    np.testing.assert_array_equal(grown(dense, setting), entries)


@pytest.mark.parametrize(
    "text",
    [
        "causal()", "causal(-1)", "window(2, 0)", "band(low=-3)",
        "~(causal() & valid(bool[3]))", "(causal() | prefix(2)) & ~diagonal()",
        "causal() & (stride(3) ^ same_block(2))", "lengths(2) | lengths(int64[2])",
        "per_head((causal(), window(1, 0)))", "causal(123456)",
    ],
)  # fmt: skip
def test_repr_reads_like_the_algebra(text):
    names = {name: getattr(masks, name) for name in masks.__all__}
    arrays = {"bool[3]": "[True, True, False]", "int64[2]": "[1, 2]"}
    written = text
    for shown, array in arrays.items():
        written = written.replace(shown, array)
    assert repr(eval(written, names)) == text


def test_show_draws_a_picture_per_head_and_row():
    assert masks.causal().show(2, 3) == "■ · ·\n■ ■ ·"
    assert masks.causal().show(2, 3, "end") == "■ ■ ·\n■ ■ ■"
    pair = masks.per_head([masks.causal(), masks.diagonal()])
    assert pair.show(2) == "■ ·\n■ ■\n\n■ ·\n· ■"


def test_tiles_of_a_long_sequence_are_found_without_its_score_matrix():
    n, size = 65_536, 256
    documents = np.repeat(np.arange(8), n // 8)
    few = np.zeros(n, bool)
    few[[0, n // 2]] = True
    mask = (masks.causal() & masks.window(1024, 0) & masks.segments(documents)) | (
        masks.global_tokens(keys=few) & masks.causal()
    )
    tracemalloc.start()
    before = time.process_time()
    may, must = mask.block_map(n, n, (size, size))
    took, (_, peak) = time.process_time() - before, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    may, must = may.reshape(256, 256), must.reshape(256, 256)
    assert peak < 16 * 2**20, f"{peak / 2**20:.0f} MiB; n² booleans are 4,096"
    assert took < 1
    row, column = np.indices((256, 256))
    near = (column <= row) & (row - column <= 4) & (row // 32 == column // 32)
    np.testing.assert_array_equal(may, near | ((column % 128 == 0) & (column <= row)))
    assert must.sum() == 8 * sum(
        min(i, 3) for i in range(32)
    )  # inside the window, below the diagonal


@pytest.mark.parametrize(
    "mask", [masks.causal(2), masks.window(3, 1), masks.same_block(3), masks.stride(3), masks.prefix(4)]
)  # fmt: skip
def test_bounds_of_a_leaf_are_exact_where_positions_are_in_order(mask):
    entries = np.asarray(mask.dense(13, 13))
    for tile in ((4, 4), (1, 5), (13, 2)):
        may, must = mask.block_map(13, 13, tile)
        np.testing.assert_array_equal(may, by_block(np.any, entries, tile))
        if not isinstance(mask, masks.stride):  # a block of one entry aside, strides are never full
            np.testing.assert_array_equal(must, by_block(np.all, entries, tile))


def test_masks_have_no_truth_value():
    for use in (
        lambda a, b: a and b,
        lambda a, b: a or b,
        lambda a, b: not a,
        lambda a, b: b if a else a,
    ):
        with pytest.raises(TypeError, match="not with and, or, not"):
            use(masks.causal(), masks.diagonal())


@pytest.mark.parametrize("other", [np.ones((2, 2), bool), jnp.ones((2, 2), bool), True, None, 1.0])
@pytest.mark.parametrize("mask", [masks.causal(), masks.everything(), ~masks.diagonal()])
def test_masks_combine_with_masks_alone(mask, other):
    for combine in (
        lambda a, b: a & b,
        lambda a, b: b & a,
        lambda a, b: a | b,
        lambda a, b: b | a,
        lambda a, b: a ^ b,
        lambda a, b: b ^ a,
    ):
        with pytest.raises(TypeError, match=r"masks combine with masks.*masks.explicit"):
            combine(mask, other)


def test_a_mask_knows_whether_it_reads_positions():
    padding = masks.valid([True, False])
    assert not (padding | masks.segments([0, 1]) & ~masks.everything()).reads_positions
    for mask in (
        masks.causal(),
        ~masks.diagonal(),
        padding & masks.prefix(1),
        masks.stride(2) ^ padding,
    ):
        assert mask.reads_positions
    assert masks.per_head([padding, masks.causal()]).reads_positions
    assert not masks.per_head([padding, padding]).reads_positions


def test_every_part_of_an_expression_is_checked():
    axes = Axes((BATCH,), HEADS, 4, 5)
    wrong = masks.valid([True, False])
    for mask in (
        wrong,
        ~wrong,
        masks.causal() & wrong,
        wrong | masks.causal(),
        masks.causal() ^ wrong,
    ):
        with pytest.raises(
            ValueError, match=r"valid\(array\) has 2 entries along s, the problem has 5"
        ):
            mask.check(axes)
    with pytest.raises(ValueError, match="2 entries along s"):
        masks.per_head([masks.causal(), wrong]).check(axes)
