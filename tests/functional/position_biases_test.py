"""ALiBi, T5's buckets and Swin's offsets against their formulas, on tiles, decoded, and learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Positions, Rule, attend, biases, masks
from attn_jax.functional.tiles import Range, whole

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(32, 2)).astype(np.float32)
WINDOW = RNG.normal(size=(3 * 5, 2)).astype(np.float32)
BIASES = {
    "alibi": biases.alibi(2),
    "t5": biases.t5(TABLE),
    "t5 causal": biases.t5(TABLE, bidirectional=False, max_distance=20),
    "relative_2d": biases.relative_2d(WINDOW, (2, 3)),
}
every_bias = pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, [4, 8, 2]),  # of 2 heads, then every other one of 4
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_alibi_slopes(heads, exponents):
    np.testing.assert_allclose(biases.alibi(heads).slopes, 2.0 ** -np.array(exponents), rtol=1e-6)


def test_alibi_is_minus_slope_times_distance():
    bias = biases.alibi(slopes=[0.5, 2.0]).values(whole(3, 4))
    distance = np.array([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1]])
    np.testing.assert_array_equal(bias, [-0.5 * distance, -2.0 * distance])


def t5_bucket(relative, buckets, bidirectional, max_distance):
    """The formula with its comparisons made in integers: bucket e + m starts at e (D/e)^(m/n)."""
    bucket = 0
    if bidirectional:
        buckets //= 2
        bucket = buckets if relative > 0 else 0
        relative = abs(relative)
    else:
        relative = max(-relative, 0)
    e = buckets // 2
    if relative < e:
        return bucket + relative
    n = buckets - e
    reached = [m for m in range(n) if relative**n * e**m >= max_distance**m * e**n]
    return bucket + e + max(reached)


@pytest.mark.parametrize(
    ("buckets", "bidirectional", "max_distance"),
    [(32, True, 128), (32, False, 128), (8, True, 20), (6, False, 50), (64, True, 1000)],
)
def test_t5_buckets(buckets, bidirectional, max_distance):
    bias = biases.t5(np.zeros((buckets, 1)), bidirectional, max_distance)
    reach = max_distance + 9
    relative = np.arange(-reach, reach + 1)
    expected = [t5_bucket(int(r), buckets, bidirectional, max_distance) for r in relative]
    np.testing.assert_array_equal(bias.bucket(relative), expected)


def test_t5_buckets_of_the_first_row():
    """A24."""
    bias = biases.t5(np.arange(32.0)[:, None])
    assert bias.values(whole(1, 10))[0, 0].tolist() == [0, 17, 18, 19, 20, 21, 22, 23, 24, 24]


@every_bias
def test_one_row_decoded_is_a_row_of_the_whole(bias):
    """A22, A23: at offset 4, the row 4 of the full bias."""
    full = bias.values(whole(6, 6))
    row = bias.values(whole(1, 6, Positions(Range(4, 1), Range(0, 6))))
    np.testing.assert_array_equal(row, full[:, 4:5])
    q, k, v = jnp.asarray(RNG.normal(size=(3, 6, 2, 3)), jnp.float32)
    rule = Rule(bias=bias, mask=masks.causal())

    @jax.jit
    def last_and_all(q, k, v):
        last = attend(q[-1:], k, v, rule=rule, positions="end", backend="dense")
        return last, attend(q, k, v, rule=rule, backend="dense")

    last, everyone = last_and_all(q, k, v)
    np.testing.assert_allclose(last, everyone[-1:], rtol=1e-5, atol=1e-6)


@every_bias
def test_a_tile_with_traced_corner_or_positions_of_its_own(bias):
    full = np.asarray(bias.values(whole(6, 6)))

    @jax.jit
    def part(i, j):
        return bias.values(whole(6, 6).part(Range(i, 2), Range(j, 3)))

    np.testing.assert_array_equal(part(3, 1), full[:, 3:5, 1:4])
    shuffled = np.stack([RNG.permutation(6) for _ in range(4)]).reshape(2, 2, 6)
    by_row = bias.values(whole(6, 6, Positions(shuffled, np.arange(6))))
    assert by_row.shape == (2, 2, 2, 6, 6)  # *b h t s
    np.testing.assert_array_equal(by_row, np.moveaxis(full[:, shuffled], 0, 2))


def test_swin_offsets_in_a_window_and_in_windows_side_by_side():
    """By hand: cell p of a 2 × 3 window is in row p // 3 and column p % 3."""
    bias = np.asarray(BIASES["relative_2d"].values(whole(12, 12)))
    for i in range(6):
        for j in range(6):
            rows, columns = i // 3 - j // 3, i % 3 - j % 3
            expected = WINDOW[(rows + 1) * 5 + columns + 2]
            np.testing.assert_array_equal(bias[:, i, j], expected)
            np.testing.assert_array_equal(bias[:, 6 + i, 6 + j], expected)


@every_bias
def test_leaves_learn_what_the_dense_bias_would_pass_on(bias):
    """A13: the gradient of a table or slope is that of the array of biases, summed where it is used."""
    q, k, v = jnp.asarray(RNG.normal(size=(3, 2, 6, 2, 3)), jnp.float32)

    def loss(bias):
        return (attend(q, k, v, rule=Rule(bias=bias), backend="dense") ** 2).sum()

    both = jax.jit(lambda a, b: (jax.grad(loss)(a), jax.grad(loss)(b)))
    values = bias.values(whole(6, 6))
    learned, of_array = both(bias, biases.dense(values))
    (leaf,), (learned,) = jax.tree.leaves(bias), jax.tree.leaves(learned)
    assert learned.shape == np.shape(leaf)
    # Every bias is linear in its leaf: an entry of it moves the array by its indicator.
    for entry in np.ndindex(*np.shape(leaf)):
        moved = jax.tree.map(lambda x, e=entry: np.eye(x.size)[np.ravel_multi_index(e, x.shape)]
                             .reshape(x.shape), bias)  # fmt: skip
        expected = (np.asarray(moved.values(whole(6, 6))) * of_array.array).sum()
        np.testing.assert_allclose(learned[entry], expected, rtol=1e-3, atol=1e-5)


def test_biases_of_position_add_to_each_other_and_read_positions():
    both = BIASES["alibi"] + BIASES["t5"]
    assert both.reads_positions
    assert repr(both) == "alibi(slopes=float32[2]) + t5(float32[32,2])"
    assert repr(BIASES["relative_2d"]) == "relative_2d(float32[15,2], window=(2, 3))"
    q, k = jnp.ones((2, 2, 3)), jnp.ones((5, 2, 3))
    with pytest.raises(ValueError, match="say positions="):
        attend(q, k, k, rule=Rule(bias=both))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: biases.alibi(), "takes the number of query heads, alibi"),
        (lambda: biases.alibi(2, slopes=[1.0]), "and not both"),
        (lambda: biases.alibi(0), "integer of at least 1, got 0"),
        (lambda: biases.alibi(jnp.ones(2)), "to give the slopes themselves write alibi"),
        (lambda: biases.t5(np.zeros((31, 2))), "an even number of at least 4 buckets"),
        (lambda: biases.t5(np.zeros(32)), r"must be buckets h.*got shape \(32,\)"),
        (lambda: biases.t5(TABLE, max_distance=8), "must exceed 8"),
        (lambda: biases.relative_2d(WINDOW, (3, 3)), r"= \(25, h\) for a window of 3 × 3"),
    ],
)
def test_what_makes_no_bias_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@every_bias
def test_another_number_of_heads_is_refused(bias):
    x = jnp.ones((4, 3, 2))
    with pytest.raises(ValueError, match=r"biases\..* (head|h = 3)"):
        attend(x, x, x, rule=Rule(bias=bias))
