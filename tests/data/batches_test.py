import json
from pathlib import Path

import chex
import numpy as np
import pytest

from attn_jax.data import Batches, Tokenizer, multi30k
from attn_jax.data.tokenizer import BOS, EOS

MULTI30K = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"


def corpus(n=200, seed=0):
    """Sources of 0 to 29 tokens; each target spells its source's number."""
    rng = np.random.default_rng(seed)
    sources = [rng.integers(4, 99, rng.integers(0, 30)).tolist() for _ in range(n)]
    return sources, [[100 + i] * len(s) + [7] * (i % 3) for i, s in enumerate(sources)]


def take(walk, n):
    return [next(walk) for _ in range(n)]


def epoch_of(batches, number=0):
    return [batches[number * batches.per_epoch + i] for i in range(batches.per_epoch)]


def numbers(batches):
    return [i for batch in batches for i in batch["index"].tolist() if i >= 0]


@pytest.mark.parametrize(
    ("n", "buckets", "divisor"), [(200, 8, 8), (200, 1, 8), (7, 5, 1), (1, 4, 4)]
)
def test_an_epoch_holds_every_pair_once_exactly_framed(n, buckets, divisor):
    sources, targets = corpus(n)
    batches = Batches(sources, targets, tokens=128, buckets=buckets, divisor=divisor)
    assert len(batches.shapes) <= buckets
    epoch = epoch_of(batches)
    assert sorted(numbers(epoch)) == list(range(n))
    assert sum((batch["index"] < 0).any() for batch in epoch) <= 1
    for batch in epoch:
        assert all(array.dtype == np.int32 for array in batch.values())
        (b, s), (_, t) = batch["source"].shape, batch["labels"].shape
        assert (b, s, t) in batches.shapes
        assert b % divisor == 0
        assert b * max(s, t) <= 128 or b == divisor
        for row, i in enumerate(batch["index"]):
            source, inputs, labels = ([], [], [])
            if i >= 0:
                source, inputs, labels = [*sources[i], EOS], [BOS, *targets[i]], [*targets[i], EOS]
            expected = [r + [0] * (n - len(r)) for r, n in ((source, s), (inputs, t), (labels, t))]
            assert [batch[k][row].tolist() for k in ("source", "inputs", "labels")] == expected


def test_the_order_is_a_function_of_seed_and_epoch():
    first, again = (Batches(*corpus(), tokens=128, seed=3) for _ in range(2))
    chex.assert_trees_all_equal(epoch_of(first, 5), epoch_of(again, 5))
    orders = [numbers(epoch_of(first, 0)), numbers(epoch_of(first, 1))]
    orders.append(numbers(epoch_of(Batches(*corpus(), tokens=128, seed=4))))
    assert len({tuple(order) for order in orders}) == 3
    lengths = [batch["source"].shape[1] for batch in epoch_of(first)]
    assert lengths != sorted(lengths)


def test_the_order_does_not_change_from_one_release_to_the_next():
    batches = Batches([[5]] * 8, [[6]] * 8, tokens=8, divisor=4, seed=1)
    assert [batch["index"].tolist() for batch in epoch_of(batches)] == [[0, 6, 1, 4], [3, 5, 2, 7]]


@pytest.mark.parametrize("where", [0, 1, "in the middle", "at the end", "second epoch"])
def test_a_walk_goes_on_exactly_where_its_state_was_taken(where):
    batches = Batches(*corpus(), tokens=128)
    n = {"in the middle": batches.per_epoch // 2, "at the end": batches.per_epoch}
    n = n.get(where, batches.per_epoch + 3 if where == "second epoch" else where)
    walk = iter(batches)
    take(walk, n)
    state = json.loads(json.dumps(walk.get_state()))
    expected = take(walk, batches.per_epoch + 2)
    resumed = iter(Batches(*corpus(), tokens=128))  # as another process would
    resumed.set_state(state)
    assert (resumed.batch, resumed.epoch) == (n, n // batches.per_epoch)
    assert resumed.get_state() == state
    chex.assert_trees_all_equal(take(resumed, batches.per_epoch + 2), expected)
    walk.set_state(state)  # and a walk that has gone on can go back
    chex.assert_trees_all_equal(take(walk, 3), expected[:3])


def test_the_iterator_gives_what_random_access_gives():
    batches = Batches(*corpus(), tokens=128)
    chex.assert_trees_all_equal(take(iter(batches), 20), [batches[i] for i in range(20)])


@pytest.mark.parametrize(
    "other",
    [dict(tokens=64), dict(seed=1), dict(longest=20), dict(buckets=3), dict(divisor=2)],
)
def test_the_place_in_other_batches_is_refused(other):
    state = iter(Batches(*corpus(), tokens=128)).get_state()
    walk = iter(Batches(*corpus(), **(dict(tokens=128) | other)))
    ((name, value),) = other.items()
    with pytest.raises(
        ValueError, match=rf"(?s)state is of.*tokens=128.*these are.*{name}={value}"
    ):
        walk.set_state(state)


def test_the_place_in_other_text_is_refused():
    state = iter(Batches(*corpus())).get_state()
    sources, targets = corpus()
    targets[-1] = [*targets[-1][:-1], 8]
    with pytest.raises(ValueError, match="middle of other batches"):
        iter(Batches(sources, targets)).set_state(state)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_hosts_share_every_batch_evenly(count):
    whole = Batches(*corpus(), tokens=128)
    parts = [Batches(*corpus(), tokens=128, shard=(i, count)) for i in range(count)]
    assert {part.identity for part in parts} == {whole.identity}
    for number in range(whole.per_epoch):
        shares = [part[number] for part in parts]
        joined = {key: np.concatenate([share[key] for share in shares]) for key in shares[0]}
        chex.assert_trees_all_equal(joined, whole[number])


def test_pairs_that_are_too_long_are_dropped_and_counted():
    sources, targets = [[5] * 9, [5] * 10, [5], [5]], [[6], [6], [6] * 9, [6] * 10]
    batches = Batches(sources, targets, longest=10)
    assert batches.dropped == 2
    assert sorted(numbers(epoch_of(batches))) == [0, 2]
    with pytest.raises(ValueError, match="none of 4 pairs is within 1 tokens"):
        Batches(sources, targets, longest=1)


@pytest.mark.parametrize(
    ("error", "message", "bad"),
    [
        (TypeError, "source 1: .*float", [5, 1.5]),
        (TypeError, "source 1: .*str", [5, "word"]),
        (ValueError, "source 1 holds id 0", [5, 0]),
        (ValueError, "source 1 holds id -3", [-3]),
        (ValueError, "source 1 holds id 2", [2, 2]),
        (OverflowError, "source 1: ", [5, 2**40]),
    ],
)
def test_an_example_that_is_wrong_is_named(error, message, bad):
    with pytest.raises(error, match=message):
        Batches([[4], bad, [4]], [[4], [4], [4]])


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("3 sources, 2 targets", dict(targets=[[4]] * 2)),
        ("tokens to be at least 1", dict(tokens=0)),
        ("buckets to be at least 1", dict(buckets=0)),
        ("divisor to be at least 1", dict(divisor=0)),
        ("seed to be from 0", dict(seed=-1)),
        (r"0 <= i < n, got \(2, 2\)", dict(shard=(2, 2))),
        ("3 hosts cannot share batches in multiples of 8", dict(shard=(0, 3))),
    ],
)
def test_arguments_out_of_range_are_refused(message, arguments):
    with pytest.raises(ValueError, match=message):
        Batches(**(dict(sources=[[4]] * 3, targets=[[4]] * 3) | arguments))


def test_numpy_ids_are_ids():
    plain, arrays = ([[5, 6], []], [[7], [8]]), ([np.array([5, 6]), np.array([], int)], [[7], [8]])
    chex.assert_trees_all_equal(Batches(*plain)[0], Batches(*arrays)[0])


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="the shared Multi30k files are not here")
def test_little_of_multi30k_is_padding():
    text = multi30k("en-fr", directory=MULTI30K).train
    tokenizer = Tokenizer.train(text.source + text.target, size=4000)
    batches = Batches(tokenizer.encode_batch(text.source), tokenizer.encode_batch(text.target))
    assert len(batches.shapes) == 8
    assert batches.padding < 0.16
    assert batches.dropped == 0
