import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Dropout, attend
from attn_jax.functional.dropout import _mix

SHAPE = (4, 4, 32, 64)  # b h t s
RATE = 0.25


@functools.partial(jax.jit, static_argnames=("shape", "starts"))
def kept(dropout, shape=SHAPE, starts=(0, 0, 0)):
    """Which weights of a tile that begins at (head, query, key) are kept."""
    indices = (start + jnp.arange(n) for start, n in zip(starts, shape[-3:], strict=True))
    return dropout.on_weights(jnp.ones(shape), *indices)


@jax.jit
def features(dropout):
    return dropout.on_features(jnp.ones((4, 64, 128)))


def seed(n):
    return Dropout(RATE, jax.random.key(n))


@pytest.mark.parametrize("draw", [kept, features])
def test_mean_and_variance(draw):
    """A17: what is kept is divided by 1 − rate, so that the mean stays."""
    x = np.concatenate([np.asarray(draw(seed(n))).ravel() for n in range(4)])
    assert set(np.unique(x)) == {0, np.float32(1 / (1 - RATE))}
    deviation = np.sqrt(RATE / (1 - RATE))
    assert abs(x.mean() - 1) < 4 * deviation / np.sqrt(x.size)
    np.testing.assert_allclose(x.std(), deviation, rtol=0.01)


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_any_rate(rate):
    x = np.asarray(kept(Dropout(rate, jax.random.key(1))))
    expected = rate * x.size
    assert abs((x == 0).sum() - expected) <= 4 * np.sqrt(expected) + (rate > 0)


def correlations(lines):
    """Between every two rows of a matrix of draws."""
    lines = lines - lines.mean(1, keepdims=True)
    lines = lines / np.sqrt((lines**2).sum(1, keepdims=True))
    return (lines @ lines.T)[np.triu_indices(len(lines), 1)]


@pytest.mark.parametrize("axis", range(4))
def test_rows_heads_queries_and_keys_are_independent(axis):
    lines = np.moveaxis(np.asarray(kept(seed(2))), axis, 0).reshape(SHAPE[axis], -1)
    found = correlations(lines)
    n = lines.shape[1]
    assert np.abs(found).max() < 5 / np.sqrt(n)
    assert abs(found.mean()) < 5 / np.sqrt(n * found.size)


@pytest.mark.parametrize("axis", range(3))
def test_features_are_independent(axis):
    x = np.asarray(features(seed(3)))
    lines = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    assert np.abs(correlations(lines)).max() < 5.5 / np.sqrt(lines.shape[1])


def test_no_two_queries_draw_alike():
    lines = np.asarray(kept(seed(4))).reshape(-1, SHAPE[-1])
    assert len(np.unique(lines, axis=0)) == len(lines)


def test_seeds_and_sites_draw_independently():
    draws = [seed(n) for n in range(8)]
    draws += [Dropout(RATE, jax.random.fold_in(jax.random.key(0), n)) for n in range(4)]
    sites = [seed(0).at(n) for n in range(6)]
    nested = [seed(0).at(a).at(b) for a, b in ((0, 0), (0, 1), (1, 0), (2, 3), (3, 2))]
    lines = np.stack([np.asarray(kept(d)).ravel() for d in (*draws, *sites, *nested)])
    assert np.abs(correlations(lines)).max() < 5 / np.sqrt(lines.shape[1])
    assert seed(0).at(1, rate=0.5).rate == 0.5
    assert jax.jit(lambda n: kept(seed(0).at(n)))(3).tolist() == kept(seed(0).at(3)).tolist()


def test_weights_and_features_draw_independently():
    weights = np.asarray(kept(seed(5), (4, 1, 64, 128)))[:, 0].ravel()
    assert abs(correlations(np.stack([weights, np.asarray(features(seed(5))).ravel()]))[0]) < 0.03


def test_every_kind_of_key():
    lines = [
        np.asarray(kept(Dropout(RATE, jax.random.key(0, impl=impl)))).ravel()
        for impl in ("threefry2x32", "rbg", "unsafe_rbg")
    ]
    assert all(abs(line.mean() - 1) < 0.02 for line in lines)
    again = np.asarray(kept(Dropout(RATE, jax.random.key(1, impl="rbg")))).ravel()
    assert abs(correlations(np.stack([lines[1], again]))[0]) < 5 / np.sqrt(again.size)


def test_a_tile_draws_what_the_whole_draws_there():
    whole = kept(seed(6))
    for starts, shape in (((0, 0, 0), (4, 4, 5, 9)), ((1, 7, 30), (4, 2, 6, 11))):
        h, t, s = (slice(a, a + n) for a, n in zip(starts, shape[1:], strict=True))
        np.testing.assert_array_equal(kept(seed(6), shape, starts), whole[:, h, t, s])


def test_rows_are_counted_flat():
    flat = kept(seed(7), (6, 1, 4, 8))
    np.testing.assert_array_equal(kept(seed(7), (2, 3, 1, 4, 8)).reshape(flat.shape), flat)


def test_a_row_with_its_own_key_draws_the_same_in_any_company():
    rngs = jax.random.split(jax.random.key(8), 4)
    batch = kept(Dropout(RATE, rngs))
    np.testing.assert_array_equal(
        kept(Dropout(RATE, rngs[jnp.array([2, 0])]), (2, *SHAPE[1:])), batch[jnp.array([2, 0])]
    )
    np.testing.assert_array_equal(kept(Dropout(RATE, rngs[3]), SHAPE[1:]), batch[3])
    mapped = jax.vmap(lambda rng: kept(Dropout(RATE, rng), SHAPE[1:]))(rngs)
    np.testing.assert_array_equal(mapped, batch)
    assert np.abs(correlations(np.asarray(batch).reshape(4, -1))).max() < 5 / np.sqrt(batch[0].size)


def test_rows_mapped_over_share_a_draw_unless_the_key_is_mapped():
    x = jnp.ones((3, 5, 2, 4))

    @jax.jit
    def one(x, rng):
        return attend(x, x, x, dropout=Dropout(0.5, rng))

    shared = jax.vmap(one, in_axes=(0, None))(x, jax.random.key(9))
    np.testing.assert_array_equal(shared[0], shared[1])
    own = jax.vmap(one)(x, jax.random.split(jax.random.key(9), 3))
    assert (own[0] != own[1]).any()


def test_dtypes_stay():
    drop = jax.jit(seed(10).on_features)
    kept = {dtype: drop(jnp.ones((2, 3, 4), dtype)) for dtype in ("bfloat16", "float16", "float32")}
    for dtype, x in kept.items():
        assert x.dtype == dtype
        np.testing.assert_array_equal(np.asarray(x) == 0, np.asarray(kept["float32"]) == 0)


def test_forward_and_backward_share_the_draw():
    """A17."""
    q, k, v = jnp.asarray(np.random.default_rng(0).normal(size=(3, 1, 6, 2, 6)), jnp.float32)
    dropout = Dropout(0.5, jax.random.key(11))
    identity = jnp.broadcast_to(jnp.eye(6)[:, None], (1, 6, 2, 6))
    look = jax.jit(lambda v: attend(q, k, v, dropout=dropout))
    weights = look(identity)  # t h s: each row is its dropped weights
    assert 10 < (weights == 0).sum() < 62
    y, pull = jax.vjp(look, v)
    np.testing.assert_allclose(y, np.einsum("bths,bshe->bthe", weights, v), rtol=1e-5, atol=1e-6)
    (dv,) = pull(jnp.ones_like(y))
    np.testing.assert_allclose(dv[..., 0], np.einsum("bths->bsh", weights), rtol=1e-5, atol=1e-6)


def test_values_of_one_stay_one_on_average():
    """A17: v = 1 and dropout 0.5 vary around 1."""
    x, ones = jnp.zeros((8, 64, 2, 4)), jnp.ones((8, 64, 2, 1))
    y = jax.jit(attend)(x, x, ones, dropout=Dropout(0.5, jax.random.key(12)))
    y = np.asarray(y)
    assert y.std() > 0.05
    assert abs(y.mean() - 1) < 4 * y.std() / np.sqrt(y.size)


def test_a_rate_of_zero_is_no_dropout():
    """A18."""
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, 5, 2, 4)), jnp.float32)
    none = attend(x, x, x, dropout=Dropout(0.0, jax.random.key(0)))
    np.testing.assert_array_equal(none, attend(x, x, x))
    assert Dropout(np.float32(0.5), jax.random.key(0)).rate == 0.5


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2, "half", None, np.array([0.1]), float("nan"), True])
def test_rates_are_numbers_below_one(rate):
    with pytest.raises(ValueError, match=r"Dropout\(rate\) must be a number in \[0, 1\), got"):
        Dropout(rate, jax.random.key(0))


@pytest.mark.parametrize("rng", [0, None, np.zeros(2, np.uint32), "seed"])
def test_keys_are_typed(rng):
    with pytest.raises(TypeError, match=r"must be a typed key, jax.random.key\(seed\); got"):
        Dropout(0.1, rng)


def test_keys_are_one_or_one_per_row():
    x = jnp.ones((3, 5, 2, 4))
    with pytest.raises(ValueError, match=r"one key or one per batch row, \(3,\); got shape \(2,\)"):
        attend(x, x, x, dropout=Dropout(0.1, jax.random.split(jax.random.key(0), 2)))
    with pytest.raises(
        ValueError, match=r"one key or one per batch row, \(3, 5\); got shape \(3,\)"
    ):
        Dropout(0.1, jax.random.split(jax.random.key(0), 3)).on_features(x)


def test_the_hash_is_a_bijection_that_moves_half_the_bits():
    words = np.random.default_rng(2).integers(0, 2**32, 4096, dtype=np.uint32)
    words = np.unique(np.concatenate([words, np.arange(4096, dtype=np.uint32)]))
    mixed = np.asarray(jax.jit(_mix)(words))
    assert len(np.unique(mixed)) == len(words)
    for bit in range(32):
        flipped = np.asarray(jax.jit(_mix)(words ^ np.uint32(1 << bit))) ^ mixed
        moved = np.unpackbits(flipped.view(np.uint8)).reshape(-1, 32).mean(0)
        assert np.abs(moved - 0.5).max() < 0.06
