"""Each pattern against its definition entry by entry; what its blocks know; how it grows."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Positions, Rule, attend, masks, patterns
from attn_jax.functional.block_masks import block_ends, by_block, first_queries, random_earlier

N = 23
I, J = np.arange(N)[:, None], np.arange(N)[None]
IDS = np.repeat([0, 1, 2, -1], [5, 8, 7, 3])
GLOBAL = np.isin(np.arange(N), [0, 9])
PATTERNS = {
    "longformer": (patterns.longformer(4), abs(I - J) <= 2),
    "longformer with global tokens": (
        patterns.longformer(4, GLOBAL), (abs(I - J) <= 2) | GLOBAL[:, None] | GLOBAL[None],
    ),
    "longformer dilated": (
        patterns.longformer(4, dilation=3), (abs(I - J) <= 6) & ((I - J) % 3 == 0),
    ),
    "dilated": (patterns.dilated(6, 2), (abs(I - J) <= 6) & ((I - J) % 2 == 0)),
    "strided": (patterns.strided(3), (J <= I) & ((I - J <= 3) | ((I - J) % 3 == 0))),
    "fixed": (patterns.fixed(4, 2), (J <= I) & ((I // 4 == J // 4) | (J % 4 >= 2))),
    "prefix_lm": (patterns.prefix_lm(3), (J <= I) | (J < 3)),
    "documents": (
        patterns.documents(IDS), (IDS[:, None] == IDS[None]) & (IDS[:, None] >= 0),
    ),
    "bigbird without chance": (
        patterns.bigbird(4, 3, 1, 0), (abs(I // 4 - J // 4) <= 1) | (I < 4) | (J < 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_its_definition(name):
    mask, entries = PATTERNS[name]
    np.testing.assert_array_equal(mask.dense(N, N).reshape(N, N), entries)
    if name in ("longformer with global tokens", "documents"):
        return
    row = mask.dense(1, N, Positions(np.array([7]), np.arange(N)))  # one token decoded
    np.testing.assert_array_equal(row[0], entries[7])


def test_the_cases_of_strides_and_prefixes():
    """A28: row 5 at stride 3. A32: the union of causal and prefix."""
    assert patterns.strided(3).dense(6, 6)[5].astype(int).tolist() == [0, 0, 1, 1, 1, 1]
    assert patterns.prefix_lm(2).dense(4, 4).astype(int).tolist() == [
        [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1],
    ]  # fmt: skip
    per_row = patterns.prefix_lm(np.array([0, 2])).dense(3, 3)
    np.testing.assert_array_equal(per_row[0, 0], masks.causal().dense(3, 3))


def test_longformer_dilates_each_head_and_takes_global_tokens_of_each_document():
    is_global = np.zeros((2, 6), bool)
    is_global[0, 0] = is_global[1, 4] = True
    chosen = jax.jit(lambda g: patterns.longformer(2, g, dilation=(1, 2)).dense(6, 6))(is_global)
    assert chosen.shape == (2, 2, 6, 6)
    i, j = np.indices((6, 6))
    for row in range(2):
        everyone = is_global[row][:, None] | is_global[row][None]
        for head, reach in enumerate([1, 2]):
            near = (abs(i - j) <= reach) & ((i - j) % reach == 0)
            np.testing.assert_array_equal(chosen[row, head], near | everyone)


def test_documents_are_isolated_though_all_tokens_are_valid():
    """A21."""
    ids = np.array([0, 0, 1, 1])
    q, k, v = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 1, 2)), jnp.float32)
    rule = Rule(mask=patterns.documents(ids) & masks.valid(np.ones(4, bool)))
    alone = [attend(q[p], k[p], v[p], backend="dense") for p in (slice(0, 2), slice(2, 4))]
    np.testing.assert_allclose(
        attend(q, k, v, rule=rule, backend="dense"), np.concatenate(alone), rtol=1e-6
    )


def blocks_of(mask, n, block):
    dense = np.asarray(mask.dense(n * block, n * block)).reshape(n, block, n, block)
    assert (dense.any((1, 3)) == dense.all((1, 3))).all()
    return dense.any((1, 3))


def test_bigbird_sees_its_window_the_first_blocks_and_a_few_at_random():
    n, settled = 24, patterns.bigbird(2, 3, 2, 0)
    seen = blocks_of(patterns.bigbird(2, 3, 2, 3, seed=1), n, 2)
    chosen = seen & ~blocks_of(settled, n, 2)
    i = np.arange(n)
    np.testing.assert_array_equal(chosen.sum(1), np.where(i < 2, 0, np.clip(i - 3, 0, 3)))
    assert (np.triu(chosen) == 0).all(), "drawn among those before the window"
    assert len(np.unique(np.nonzero(chosen)[1])) > 10, "not always the same"


def test_bigbird_keeps_what_it_drew_when_the_sequence_grows_and_for_the_same_seed():
    short, long = (blocks_of(patterns.bigbird(1, 3, 1, 2, seed=5), n, 1) for n in (12, 40))
    np.testing.assert_array_equal(short, long[:12, :12])
    other = blocks_of(patterns.bigbird(1, 3, 1, 2, seed=6), 40, 1)
    assert (other != long).any()
    drawn = jax.jit(lambda i: random_earlier(3, seed=5, first=1, gap=2).drawn(i))
    known = random_earlier(3, seed=5, first=1, gap=2).drawn(np.arange(-2, 30, dtype=np.int32))
    for traced, static in zip(drawn(np.arange(-2, 30, dtype=np.int32)), known, strict=True):
        np.testing.assert_array_equal(traced, static)


def test_random_blocks_are_spread_evenly():
    i = np.arange(500, 1500, dtype=np.int32)
    drawn = np.concatenate(
        [j / i for j, exists in random_earlier(4, seed=0).drawn(i) if exists.all()]
    )
    assert len(drawn) == 4 * len(i)
    counts, _ = np.histogram(drawn, bins=10, range=(0, 1))
    assert abs(counts / counts.mean() - 1).max() < 0.2


BOUNDED = {
    "bigbird": patterns.bigbird(2, 3, 1, 2),
    "fixed": patterns.fixed(4, 2),
    "by_block": by_block(masks.causal() ^ masks.stride(2), 3),
    "first_queries": first_queries(5),
    "block_ends": block_ends(3, 2),
    "random_earlier": random_earlier(3, seed=2, first=1, gap=1),
    "pooled": patterns.pooled(4).mask(18),  # 18 tokens and 5 summaries
}


SHUFFLED = Positions(*np.random.default_rng(0).integers(-4, N, (2, 2, N)))


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_are_never_wrong(name):
    mask = BOUNDED[name]
    in_order, shuffled = jax.jit(lambda: (mask.dense(N, N), mask.dense(N, N, SHUFFLED)))()
    for positions, tile in ((None, (4, 3)), ("end", (4, 3)), (SHUFFLED, (4, 3)), (None, (5, N))):
        entries = np.asarray(shuffled if positions is SHUFFLED else in_order)
        known = [
            np.broadcast_to(b, (*entries.shape[:-2], *np.shape(b)[-2:]))
            for b in _bounds(mask, tile, positions)
        ]
        for x in range(0, N, tile[0]):
            for y in range(0, N, tile[1]):
                part = entries[..., x : x + tile[0], y : y + tile[1]]
                may, must = (b[..., x // tile[0], y // tile[1]] for b in known)
                assert (may | ~part.any((-2, -1))).all()
                assert (part.all((-2, -1)) | ~must).all()


def _bounds(mask, tile, positions):
    if positions == "end":  # the same, but traced
        positions = Positions(np.arange(N), np.arange(N))
        return jax.jit(lambda p: mask.block_map(N, N, tile, p))(positions)
    return mask.block_map(N, N, tile, positions)


def test_the_block_map_of_a_long_sequence_is_small_and_sparse():
    mask = patterns.bigbird(64, 3, 1, 3)
    tracemalloc.start()
    may, must = mask.block_map(65_536, 65_536, (64, 64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20  # the entries would be 4 GiB
    np.testing.assert_array_equal(may, must)  # every tile is all or nothing, and known to be
    rows = may.sum(1)
    assert (rows[1:] <= 3 + 1 + 3).all()


def test_blocks_see_the_means_of_other_blocks():
    pool, n = patterns.pooled(3), 8
    q, k, v = np.random.default_rng(0).normal(size=(3, n, 1, 2)).astype(np.float32)
    keys, values = pool.append(k), pool.append(v)
    np.testing.assert_allclose(keys[n:, 0], [k[:3, 0].mean(0), k[3:6, 0].mean(0), k[6:, 0].mean(0)],
                               rtol=1e-6)  # fmt: skip
    for causal in (False, True):
        mask = pool.mask(n) & masks.causal() if causal else pool.mask(n)
        attended = jax.jit(
            lambda *x, m=mask: attend(
                *x, rule=Rule(mask=m), positions=pool.positions(n), backend="dense"
            )
        )
        y = attended(q, keys, values)
        for i in range(n):
            own = [j for j in range(n) if j // 3 == i // 3 and (j <= i or not causal)]
            others = [c for c in range(3) if c != i // 3 and (c < i // 3 or not causal)]
            seen = own + [n + c for c in others]
            s = np.exp(np.asarray(keys)[seen, 0] @ q[i, 0] / np.sqrt(2))
            np.testing.assert_allclose(
                y[i, 0], s @ np.asarray(values)[seen, 0] / s.sum(), rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: patterns.bigbird(0, 3, 1, 1), r"by_block\(n\)"),
        (lambda: patterns.bigbird(2, 0, 1, 1), r"bigbird\(window\)"),
        (lambda: patterns.bigbird(2, 3, 1, -1), r"random_earlier\(count\).*got -1"),
        (lambda: patterns.fixed(4, 0), r"block_ends\(count\)"),
        (lambda: patterns.strided(0), r"stride\(n\)"),
        (lambda: patterns.dilated(4, 0), r"dilated\(dilation\)"),
    ],
)
def test_what_makes_no_pattern_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_patterns_print_as_the_algebra_they_are():
    assert repr(patterns.strided(3)) == "window(3, 0) | causal() & stride(3)"
    assert repr(patterns.longformer(4, GLOBAL)).startswith("window(2, 2) | global_tokens(")
