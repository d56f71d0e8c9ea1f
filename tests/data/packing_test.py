"""Rows that hold several pairs: what is in them, and that training goes on in the middle of them."""

import itertools
import json

import chex
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax.data import PackedBatches
from attn_jax.data.packing import pack
from attn_jax.data.tokenizer import BOS, EOS


def corpus(n=300, seed=0):
    rng = np.random.default_rng(seed)
    sources = [rng.integers(4, 99, rng.integers(0, 30)).tolist() for _ in range(n)]
    return sources, [[100 + i] * len(s) + [7] * (i % 3) for i, s in enumerate(sources)]


def epoch_of(batches, number=0):
    return [batches[number * batches.per_epoch + i] for i in range(batches.per_epoch)]


def unpacked(batch):
    """The pairs of a batch, each with what the decoder is given."""
    for row, number in enumerate(batch["index"]):
        s, t = batch["source_segments"][row], batch["target_segments"][row]
        assert number >= 0 or (s < 0).all()
        assert not batch["source"][row][s < 0].any()
        assert not batch["labels"][row][t < 0].any()
        for segment in range(s.max() + 1):
            yield tuple(
                batch[name][row][ids == segment].tolist()
                for name, ids in (("source", s), ("inputs", t), ("labels", t))
            )


@pytest.mark.parametrize(("n", "divisor"), [(300, 8), (7, 2), (1, 4)])
@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_holds_every_pair_once_exactly_framed(n, divisor, epoch):
    sources, targets = corpus(n)
    batches = PackedBatches(sources, targets, tokens=256, longest=64, divisor=divisor)
    found = [pair for batch in epoch_of(batches, epoch) for pair in unpacked(batch)]
    expected = [([*s, EOS], [BOS, *t], [*t, EOS]) for s, t in zip(sources, targets)]
    assert sorted(found) == sorted(expected)
    for batch in epoch_of(batches, epoch):
        assert {x.shape for name, x in batch.items() if name != "index"} == {
            (max(divisor, 256 // 64 // divisor * divisor), 64)
        }
        for ids in (batch["source_segments"], batch["target_segments"]):
            steps = np.diff(np.where(ids < 0, 10**6, ids))  # runs in order, padding last
            assert (steps >= 0).all()


def test_rows_differ_from_epoch_to_epoch_and_are_a_function_of_the_seed():
    first, again, other = (PackedBatches(*corpus(), longest=64, seed=s) for s in (3, 3, 4))
    chex.assert_trees_all_equal(epoch_of(first, 5), epoch_of(again, 5))
    orders = [[x for b in epoch_of(one, e) for x in unpacked(b)] for one, e in
              ((first, 0), (first, 1), (other, 0))]  # fmt: skip
    assert orders[0] != orders[1] != orders[2] != orders[0]
    neighbours = [{(a[2][0], b[2][0]) for a, b in itertools.pairwise(o)} for o in orders]
    assert len(neighbours[0] & neighbours[1]) < 0.9 * len(neighbours[0])


def test_a_walk_goes_on_exactly_where_its_state_was_taken():
    walk = iter(PackedBatches(*corpus(), tokens=256, longest=64))
    for _ in range(7):
        next(walk)
    state = json.loads(json.dumps(walk.get_state()))
    expected = [next(walk) for _ in range(6)]
    resumed = iter(PackedBatches(*corpus(), tokens=256, longest=64))
    resumed.set_state(state)
    chex.assert_trees_all_equal([next(resumed) for _ in range(6)], expected)
    with pytest.raises(ValueError, match="middle of other batches"):
        iter(PackedBatches(*corpus(), tokens=256, longest=32)).set_state(state)


@pytest.mark.parametrize("count", [2, 4])
def test_hosts_share_every_batch_evenly(count):
    whole = PackedBatches(*corpus(), tokens=512, longest=64)
    parts = [
        PackedBatches(*corpus(), tokens=512, longest=64, shard=(i, count)) for i in range(count)
    ]
    for number in range(whole.per_epoch):
        shares = [part[number] for part in parts]
        joined = {key: np.concatenate([share[key] for share in shares]) for key in shares[0]}
        chex.assert_trees_all_equal(joined, whole[number])


def test_little_of_a_row_is_padding():
    batches = PackedBatches(*corpus(3000), tokens=1024, longest=128)
    assert batches.padding < 0.06  # sources are shorter than targets by a token
    assert batches.dropped == 0
    assert PackedBatches(*corpus(), longest=20).dropped > 0


lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=200)


@given(lengths, st.integers(12, 40))
def test_packing_holds_each_pair_once_and_no_row_too_many(pairs, size):
    s, t = np.array(pairs).T
    rows = pack(s, t, size)
    assert sorted(pair for row in rows for pair in row) == list(range(len(pairs)))
    assert all(row and s[row].sum() <= size and t[row].sum() <= size for row in rows)
