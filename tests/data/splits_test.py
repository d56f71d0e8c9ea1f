import contextlib
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attn_jax.data.splits import Corpus, Pairs, split

PARTS = ("train", "validation", "test")


def distinct(n):
    return Pairs([f"s{i}" for i in range(n)], [f"t{i}" for i in range(n)])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1), st.integers(0, 3))
def test_no_sentence_is_in_two_splits_and_no_pair_is_lost(numbers, seed):
    rng = random.Random(seed)
    awkward = lambda text: rng.choice([text, text.upper(), f" {text}\t"])  # noqa: E731
    pairs = Pairs(*([awkward(f"{side}{p[i]}") for p in numbers] for i, side in enumerate("st")))
    corpus = None
    with contextlib.suppress(ValueError):  # all hangs together, or there is too little
        corpus = split(pairs, seed=seed, validation=0.2, test=0.1)
    assume(corpus)
    parts = [getattr(corpus, name) for name in PARTS]
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)
    for side in ("source", "target"):
        seen = [{s.strip().casefold() for s in getattr(part, side)} for part in parts]
        assert sum(map(len, seen)) == len(set().union(*seen))


def test_the_split_depends_on_text_and_seed_and_not_on_the_order_of_lines():
    pairs = distinct(100)
    shuffled = Pairs(*map(list, zip(*random.Random(1).sample(list(pairs), len(pairs)))))
    first, second, third = split(pairs), split(shuffled), split(pairs, seed=1)
    assert [set(getattr(first, n)) for n in PARTS] == [set(getattr(second, n)) for n in PARTS]
    assert set(first.test) != set(third.test)
    assert [len(getattr(first, name)) for name in PARTS] == [90, 5, 5]
    assert list(first.train) == [pair for pair in pairs if pair in set(first.train)]


def test_a_group_too_large_to_hold_out_is_trained_on():
    pairs = distinct(40)
    corpus = split(Pairs(pairs.source + ["same"] * 40, pairs.target + pairs.source))
    assert {s for s, _ in corpus.train} >= {"same"}
    assert len(corpus.validation) == len(corpus.test) == 4


def test_nothing_held_out_leaves_the_other_splits_empty():
    corpus = split(distinct(2), validation=0, test=0)
    assert [len(getattr(corpus, name)) for name in PARTS] == [2, 0, 0]


def test_what_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match=r"cannot split 2 pairs, .* would be empty"):
        split(distinct(2))
    with pytest.raises(ValueError, match=r"add up to less than 1, got 0.5 for validation and 0.5"):
        split(distinct(9), validation=0.5, test=0.5)
    with pytest.raises(ValueError, match="3 sources, 2 targets"):
        Pairs(["a", "b", "c"], ["d", "e"])


def test_pairs_with_a_blank_side_are_not_trained_on():
    pairs = Pairs(["a", " ", "c", ""], ["d", "e", "\t", ""])
    with pytest.warns(UserWarning, match="3 of 4 pairs have a blank side"):
        assert list(split(pairs, validation=0, test=0).train) == [("a", "d")]
    with (
        pytest.warns(UserWarning, match="1 of 1 pairs have a blank side"),
        pytest.raises(ValueError, match="expected text to train on"),
    ):
        split(Pairs(["a"], [""]), validation=0, test=0)


def test_an_empty_corpus_is_refused():
    with pytest.raises(ValueError, match="expected text to train on"):
        Corpus(Pairs([], []), distinct(1), distinct(1))
