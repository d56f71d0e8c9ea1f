import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_jax.data.buckets import boundaries


def padding(lengths, bounds):
    return sum(min(w - n for w in bounds if w >= n) for n in lengths)


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5))
def test_no_choice_of_as_many_lengths_pads_less(lengths, count):
    bounds = boundaries(np.array(lengths), count).tolist()
    assert bounds == sorted(set(bounds))
    assert len(bounds) <= count
    assert bounds[-1] == max(lengths)
    choices = (
        choice
        for n in range(1, count + 1)
        for choice in itertools.combinations(range(1, 10), n)
        if choice[-1] >= max(lengths)
    )
    assert padding(lengths, bounds) == min(padding(lengths, choice) for choice in choices)


def test_very_long_sequences_cost_no_more_to_sort():
    lengths = np.random.default_rng(0).integers(1, 1_000_000, 5000)
    bounds = boundaries(lengths, 8)
    assert len(bounds) == 8
    assert bounds[-1] == lengths.max()
