import warnings

import chex
import numpy as np
import pytest

from attn_jax.data import evaluation_batches

RNG = np.random.default_rng(0)
SOURCES = [RNG.integers(4, 99, n).tolist() for n in (3, 40, 0, 7, 8, 15, 16, 99, 3)]
TARGETS = [source[::-1] for source in SOURCES]


def rows(batches):
    """Each example's row, by number, with the shape it was met in."""
    return {
        int(i): (batch["source"].shape, batch["source"][row].tolist())
        for batch in batches
        for row, i in enumerate(batch["index"])
        if i >= 0
    }


def test_every_line_is_there_once_in_lengths_that_double():
    batches = list(evaluation_batches(SOURCES, rows=2, longest=100))
    found = rows(batches)
    assert sorted(found) == list(range(len(SOURCES)))
    for number, ((b, s), row) in found.items():
        assert b == 2
        assert s == next(w for w in (8, 16, 32, 64, 100) if w > len(SOURCES[number]))
        assert row == [*SOURCES[number], 2] + [0] * (s - len(SOURCES[number]) - 1)
    assert all(set(batch) == {"source", "index"} for batch in batches)


def test_a_sentence_meets_the_same_shape_alone_or_in_company():
    company = rows(evaluation_batches(SOURCES))
    for number, source in enumerate(SOURCES):
        assert rows(evaluation_batches([source]))[0] == company[number]


def test_targets_are_framed_as_in_training():
    (batch,) = evaluation_batches([[5]], [[6, 7]], rows=1)
    expected = dict(source=[5, 2], inputs=[1, 6, 7], labels=[6, 7, 2])
    padded = {k: np.array([v + [0] * (8 - len(v))], np.int32) for k, v in expected.items()}
    chex.assert_trees_all_equal(batch, padded | {"index": np.array([0], np.int32)})


def test_a_line_that_is_too_long_is_cut_and_answered_all_the_same():
    with pytest.warns(UserWarning, match="2 of 9 lines of the source .* 16 tokens.* line 2, 7"):
        found = rows(evaluation_batches(SOURCES[:6] + SOURCES[7:] + [[]], longest=16))
    assert len(found) == 9
    assert found[1][1] == [*SOURCES[1][:15], 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(evaluation_batches([[5] * 15], longest=16))


def test_nothing_in_nothing_out():
    assert list(evaluation_batches([])) == list(evaluation_batches([], [])) == []


def test_hosts_share_every_batch_evenly():
    whole = list(evaluation_batches(SOURCES, TARGETS, rows=4))
    parts = [list(evaluation_batches(SOURCES, TARGETS, rows=4, shard=(i, 2))) for i in range(2)]
    joined = [{k: np.concatenate([a[k], b[k]]) for k in a} for a, b in zip(*parts)]
    chex.assert_trees_all_equal(joined, whole)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("2 sources, 1 targets", dict(targets=[[4]])),
        ("at least 1, got 0", dict(rows=0)),
        ("cannot share", dict(rows=3, shard=(0, 2))),
        ("source 1 holds id 1", dict(sources=[[4], [1]])),
    ],
)
def test_arguments_out_of_range_are_refused_before_the_first_batch(message, arguments):
    with pytest.raises(ValueError, match=message):
        evaluation_batches(**(dict(sources=[[4], [4]]) | arguments))
