import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax import Positions
from attn_jax.functional.tiles import Blocks, Cut, Range, Tile, whole


@pytest.mark.parametrize("start", [2, np.int32(2), jnp.asarray(2)])
def test_a_range_takes_what_numpy_slices(start):
    array = np.arange(24).reshape(3, 8)
    for axis, size in ((1, 8), (0, 3)):
        part = Range(start, size - 2).take(array, axis)
        np.testing.assert_array_equal(part[..., :1], array.take(range(2, size), axis)[..., :1])
    assert Range(start, 3).array().tolist() == [2, 3, 4]
    assert Range(start, 3).part(Range(1, 2)).array().tolist() == [3, 4]
    assert Range(start, 4).take(np.ones((5, 1)), 1).shape == (5, 1), "an axis of 1 broadcasts"


def test_a_range_past_the_end_reads_the_last_element():
    for start in (3, jnp.asarray(3)):
        assert Range(start, 4).take(jnp.arange(5), 0).tolist() == [3, 4, 4, 4]


def test_a_whole_axis_is_not_copied():
    array = np.arange(5)
    assert Range(0, 5).take(array, 0) is array


def test_positions_are_signed_and_wide_enough_to_be_subtracted():
    for dtype in (np.uint8, np.int8, np.uint32):
        positions = Positions(np.arange(3, dtype=dtype), jnp.arange(3).astype(dtype))
        assert (positions.q.dtype, positions.k.dtype) == (np.int32, np.int32)
    assert Positions([1, 2], (3,)).q.tolist() == [1, 2]
    assert Positions(np.arange(2), np.arange(2)).q.dtype == np.int64


def test_alignment_at_either_end():
    for end, first in (("start", 0), ("end", 3)):
        positions = Positions.aligned(end, 2, 5)
        assert positions.q.array().tolist() == [first, first + 1]
        assert positions.k.array().tolist() == [0, 1, 2, 3, 4]
    assert Positions.aligned("end", 3, 1).q.array().tolist() == [-2, -1, 0]
    with pytest.raises(ValueError, match=r'"start", "end" or Positions\(q, k\), got \'middle\''):
        whole(2, 5, "middle")


def test_positions_broadcast_against_scores():
    tile = whole(2, 3)
    assert (tile.i.shape, tile.j.shape) == ((2, 1), (1, 3))
    tile = whole(2, 3, Positions(np.zeros((4, 5, 2), int), np.zeros((4, 5, 3), int)))
    assert (tile.i.shape, tile.j.shape) == ((4, 5, 1, 2, 1), (4, 5, 1, 1, 3))


def test_a_part_of_a_tile_is_the_tile_of_the_part():
    positions = Positions(np.array([5, 3, 9, 1]), np.array([[4, 8, 2], [0, 1, 7]]))
    tile = whole(4, 3, positions).part(Range(1, 2), Range(1, 2))
    assert tile.i[:, 0].tolist() == [3, 9]
    assert tile.j[:, 0, 0].tolist() == [[8, 2], [1, 7]]
    assert tile.of_queries(np.arange(4)).ravel().tolist() == [1, 2]
    assert tile.of_keys(np.arange(3)).ravel().tolist() == [1, 2]
    assert tile.of_both(np.arange(12).reshape(4, 3)).tolist() == [[4, 5], [7, 8]]
    assert tile.of_both(np.arange(4)[:, None]).tolist() == [[1], [2]]


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 99))
def test_a_cut_says_one_thing_a_block(total, size, seed):
    array = np.random.default_rng(seed).integers(-9, 9, (2, total))
    blocks = [array[:, n : n + size] for n in range(0, total, size)]
    cut = Cut(total, size)
    assert len(cut) == len(blocks)
    low, high = (np.broadcast_to(x, (2, len(cut))) for x in cut.span(array))
    np.testing.assert_array_equal(low, np.stack([b.min(1) for b in blocks], 1))
    np.testing.assert_array_equal(high, np.stack([b.max(1) for b in blocks], 1))
    some = np.broadcast_to(cut.any(array > 5), low.shape)
    np.testing.assert_array_equal(some, np.stack([(b > 5).any(1) for b in blocks], 1))
    first, last = cut.span(Range(3, total))
    assert [first[0], last[-1]] == [3, total + 2]


def test_a_cut_of_nothing_has_no_blocks():
    assert len(Cut(0, 4)) == 0
    assert Cut(0, 4).any(np.zeros(0, bool)).shape == (0,)
    low, _ = Cut(0, 4).span(np.zeros(0, int))
    assert low.shape == (0,)


def test_static_blocks_read_only_what_is_known_while_tracing():
    known, traced = np.arange(4), jnp.arange(4)
    for positions, knows in ((Positions(known, known), True), (Positions(traced, known), False)):
        for static in (True, False):
            spans = Blocks(Cut(4, 2), Cut(4, 2), positions, static).spans()
            assert (spans is not None) == (knows or not static)
    offset = Positions(Range(jnp.asarray(1), 4), Range(0, 4))
    assert Blocks(Cut(4, 2), Cut(4, 2), offset, static=True).spans() is None
    assert Blocks(Cut(4, 2), Cut(4, 2), offset).spans()[0].ravel().tolist() == [1, 3]


def test_tiles_pass_through_jit():
    tile = Tile(Range(0, 2), Range(jnp.asarray(1), 3), Positions(np.arange(2), np.arange(3)))
    assert jax.jit(lambda tile: tile.j + tile.keys.array())(tile).tolist() == [[1, 3, 5]]
