"""The leaves of the mask algebra: small pictures, and what may not be given to them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Positions, Rule, attend, masks
from attn_jax.functional.mask import Axes


def counts(mask, *args):
    return mask.dense(*args).sum(-1).tolist()


def test_causal_is_the_lower_triangle():
    """A5."""
    np.testing.assert_array_equal(masks.causal().dense(3, 3), np.tril(np.ones((3, 3), bool)))
    assert counts(masks.causal(-1), 3, 3) == [0, 1, 2]
    assert counts(masks.causal(1), 3, 3) == [2, 3, 3]


def test_a_window_of_the_query_alone_is_the_diagonal():
    """A4."""
    np.testing.assert_array_equal(masks.window(0, 0).dense(4, 4), np.eye(4, dtype=bool))
    np.testing.assert_array_equal(masks.diagonal().dense(4, 4), np.eye(4, dtype=bool))


def test_causal_rows_of_more_keys_than_queries():
    """A8."""
    at = {"end": "■ ■ ■ ■ ·\n■ ■ ■ ■ ■", "start": "■ · · · ·\n■ ■ · · ·"}
    for positions, picture in at.items():
        assert masks.causal().show(2, 5, positions) == picture


def test_a_window_includes_its_query():
    """A9: a window of two is the query and the one before."""
    assert counts(masks.window(1, 0), 4, 4) == [1, 2, 2, 2]
    assert counts(masks.window(1, 0) & masks.causal(), 4, 4) == [1, 2, 2, 2]


def test_a_window_has_no_favourite_lengths():
    """A27."""
    for t in (5, 7, 11):
        assert counts(masks.window(2, 2), t, t)[2:-2] == [5] * (t - 4)


def test_a_stride_counts_from_the_query():
    """A28: row 5 of a causal window of three and a stride of three, as the paper draws it."""
    row = (masks.causal() & (masks.window(2, 0) | masks.stride(3))).dense(6, 6)[5]
    assert row.astype(int).tolist() == [0, 0, 1, 1, 1, 1]


def test_a_prefix_joins_causal():
    """A32: the union, not the prefix alone."""
    assert counts(masks.causal() | masks.prefix(2), 4, 4) == [2, 2, 3, 4]


def test_segments_isolate_documents_whatever_else_is_valid():
    """A21."""
    blocks = np.kron(np.eye(2), np.ones((2, 2))).astype(bool)
    documents = masks.segments([0, 0, 1, 1])
    np.testing.assert_array_equal(documents.dense(4, 4)[0], blocks)
    np.testing.assert_array_equal((documents & masks.valid([1, 1, 1, 1])).dense(4, 4)[0], blocks)


def test_padding_is_in_no_segment():
    ids = masks.segments([-1, 0], [0, -1, 0])
    assert ids.dense(2, 3)[0].tolist() == [[False] * 3, [True, False, True]]
    assert not masks.segments([-1, -1]).dense(2, 2).any()


def test_causal_and_left_padding_combine_as_booleans():
    """A3."""
    mask = masks.causal() & masks.valid([0, 0, 1, 1])
    assert counts(mask, 4, 4) == [[0, 0, 1, 2]]


def test_masks_of_positions_follow_positions_and_masks_of_indices_do_not():
    reverse = Positions(np.arange(3)[::-1], np.arange(3)[::-1])
    np.testing.assert_array_equal(
        masks.causal().dense(3, 3, reverse), np.triu(np.ones((3, 3), bool))
    )
    for mask in (masks.lengths(2), masks.segments([0, 0, 1]), masks.valid([True, True, False])):
        np.testing.assert_array_equal(mask.dense(3, 3, reverse), mask.dense(3, 3))


def test_numbers_of_a_mask_may_be_traced():
    @jax.jit
    def entries(n):
        mask = masks.causal(n) & masks.band(low=-n) & masks.window(n, n) | masks.prefix(n)
        return (mask & masks.lengths(n + 2)).dense(4, 4)

    np.testing.assert_array_equal(entries(1), entries(np.int32(1)))
    expected = masks.window(1, 1) | masks.prefix(1)
    np.testing.assert_array_equal(entries(1), expected.dense(4, 4) & masks.lengths(3).dense(4, 4))


def test_numpy_integers_are_as_good_as_pythons():
    assert repr(masks.window(np.uint8(2), np.int64(1))) == "window(2, 1)"
    assert repr(masks.stride(np.int32(3))) == "stride(3)"
    unsigned = masks.window(np.array(2, np.uint8), np.array(0, np.uint8))
    np.testing.assert_array_equal(unsigned.dense(5, 5), masks.window(2, 0).dense(5, 5))


def test_positions_of_any_integer_type():
    for dtype in (np.uint8, np.int8, np.uint32):
        positions = Positions(*np.arange(10, dtype=dtype).reshape(2, 5))
        assert masks.window(6, 0).block_map(5, 5, (5, 5), positions).may.item() is False
        assert not masks.stride(2).block_map(1, 1, (1, 1), Positions([3], [4])).may.any()
        assert not masks.causal(-6).dense(5, 5, positions).any()


def test_a_mask_that_closes_over_an_array():
    allowed = np.array([1, 4, 9])
    mask = masks.where(lambda i, j: (j[..., None] == allowed).any(-1) & (i >= 0))
    assert mask.dense(1, 6)[0].astype(int).tolist() == [0, 1, 0, 0, 1, 0]


def test_a_bound_may_be_written_in_jax_and_close_over_traced_arrays():
    def mask(limit):
        return masks.where(
            lambda i, j: i + j < limit,
            lambda a, b, c, d: (jnp.less(a + c, limit), jnp.less(b + d, limit)),
        )

    def live(limit):
        from attn_jax.functional.tiles import Blocks, Cut

        known = mask(limit).bounds(
            Blocks(Cut(4, 2), Cut(4, 2), Positions.aligned("start", 4, 4), True)
        )
        assert isinstance(known.may, np.ndarray | np.generic)
        return jnp.asarray(known.may)

    assert jax.jit(lambda: live(2))().tolist() == [[True, False], [False, False]]
    assert jax.jit(live)(2).item() is True, "unknown: visit every tile"


FLOATS = np.ones((2, 4, 4), np.float32)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: masks.explicit(FLOATS), r"explicit\(array\) must be boolean.*float32.*biases.dense"),
        (lambda: masks.explicit(FLOATS.astype(int)), r"must be boolean.*got int64.*array != 0"),
        (lambda: masks.valid(FLOATS[0]), r"valid\(array\) must be boolean.*got float32"),
        (lambda: masks.lengths(jnp.array([1.0, 2.0])), r"lengths\(n\) must be integers, got float32"),
        (lambda: masks.lengths([True, False]), r"lengths\(n\) must be integers, got bool"),
        (lambda: masks.lengths(None), r"lengths\(n\) must be integers, got None"),
        (lambda: masks.segments([0.5]), r"segments\(query_ids\) must be integers, got float64"),
        (lambda: masks.segments([0], [0.5]), r"segments\(key_ids\) must be integers, got float64"),
        (lambda: masks.global_tokens(queries=[0, 3]), r"queries\) must be boolean.*indices are not"),
        (lambda: masks.causal(0.5), r"causal\(offset\) must be integers, got float64"),
        (lambda: masks.causal(True), r"causal\(offset\) must be integers, got bool"),
        (lambda: masks.causal(None), r"causal\(offset\) must be integers, got None"),
        (lambda: masks.window(None, 0), r"window\(before\) must be integers, got None"),
        (lambda: masks.prefix("all"), r"prefix\(n\) must be integers"),
        (lambda: masks.per_head([masks.causal]), r"per_head takes masks.*got causal"),
        (lambda: masks.per_head([FLOATS > 0]), r"per_head takes masks.*bool\[2,4,4\]"),
        (lambda: masks.where(3), r"where\(fn\) must be a function, got 3"),
        (lambda: masks.where(len, 3), r"where\(bound\) must be a function, got 3"),
        (lambda: masks.where(lambda i, j: i + j).dense(2, 2), r"where\(<lambda>\) must be boolean"),
    ],
)  # fmt: skip
def test_what_is_not_a_boolean_or_an_integer_is_refused(make, says):
    """A25, and its kin."""
    with pytest.raises(TypeError, match=says):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: masks.causal([0, 1]), r"causal\(offset\) must be one integer, got.*\(2,\)"),
        (lambda: masks.window(1, np.arange(3)), r"window\(after\) must be one integer.*\(3,\)"),
        (lambda: masks.stride(0), r"stride\(n\) must be an integer of at least 1, got 0"),
        (lambda: masks.same_block(2.0), r"same_block\(n\) must be an integer of at least 1, got 2.0"),
        (lambda: masks.valid(True), r"valid\(array\) must be \*b s, got a scalar"),
        (lambda: masks.valid([0, 7]), r"0 and 1, got integers from 0 to 7.*ids != padding"),
        (lambda: masks.segments(1), r"segments\(query_ids\) must be \*b t, got a scalar"),
        (lambda: masks.segments([1], 1), r"segments\(key_ids\) must be \*b s, got a scalar"),
        (lambda: masks.global_tokens(keys=True), r"global_tokens\(keys\) must be \*b s, got a scalar"),
        (lambda: masks.valid([True, False]).dense(1, 4), r"valid\(array\) has 2 entries along s.*has 4"),
        (lambda: masks.segments([0, 1]).show(2, 3), r"segments\(key_ids\) has 2 entries along s.*has 3"),
        (lambda: masks.explicit(FLOATS > 0).dense(4, 5), r"must broadcast to \*b h t s"),
    ],
)  # fmt: skip
def test_numbers_and_shapes_that_mean_nothing_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (masks.valid(np.ones(3, bool)), r"valid\(array\) has 3 entries along s, the problem has 5"),
        (
            masks.valid(np.ones((3, 5), bool)),
            r"valid\(array\) is \*b s: its batch axes \(3,\) do not",
        ),
        (masks.lengths([1, 2, 3]), r"lengths\(n\) is \*b: its batch axes \(3,\) do not fit \(2,\)"),
        (masks.prefix([1, 2, 3]), r"prefix\(n\) is \*b: its batch axes \(3,\) do not fit \(2,\)"),
        (masks.segments([1, 1, 1], np.ones(5, int)), r"query_ids\) has 3 entries along t.*has 4"),
        (masks.segments([1, 1, 1, 1]), r"key_ids\) has 4 entries along s, the problem has 5"),
        (masks.global_tokens(queries=np.ones(5, bool)), r"queries\) has 5 entries along t.*has 4"),
        (masks.explicit(np.ones((3, 4, 5), bool)), r"broadcast to \*b h t s = \(2, 2, 4, 5\), got"),
        (
            masks.per_head([masks.causal()] * 3),
            r"per_head needs one mask per query head: got 3.*h = 2",
        ),
        (masks.per_head([masks.explicit(np.ones((2, 4, 5), bool))] * 2), r"must broadcast to"),
    ],
)
def test_masks_that_do_not_fit_a_problem_say_which_axis(mask, says):
    q, k = np.ones((2, 4, 2, 8), np.float32), np.ones((2, 5, 2, 8), np.float32)
    with pytest.raises(ValueError, match=says):
        jax.eval_shape(lambda q, k: attend(q, k, k, rule=Rule(mask=mask), positions="end"), q, k)
    with pytest.raises(ValueError, match=says):
        mask.check(Axes((2,), 2, 4, 5))


def test_a_mask_over_keys_of_each_row_and_no_more():
    """A11: b 1 1 s."""
    mask = masks.explicit(np.ones((2, 1, 1, 5), bool))
    mask.check(Axes((2,), 3, 4, 5))
    assert mask.dense(4, 5).shape == (2, 1, 4, 5)
