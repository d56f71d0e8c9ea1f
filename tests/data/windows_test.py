"""Windows: every piece is of the sequence, and every token is judged once."""

import numpy as np
import pytest

from attn_jax.data.windows import Windows, consecutive, joined

TOKENS = np.arange(1, 51, dtype=np.int32)


def test_documents_are_joined_by_end_tokens():
    assert joined([[5], [6, 7]]).tolist() == [2, 5, 2, 6, 7, 2]
    assert joined([]).tolist() == [2]


def test_pieces_are_of_the_sequence_and_all_of_it_is_drawn_from():
    windows = Windows(TOKENS, length=4, rows=8)
    seen = set()
    for number in range(60):
        batch = windows[number]
        assert (np.diff(batch["inputs"]) == 1).all()
        assert (batch["labels"] == batch["inputs"] + 1).all()
        assert batch["index"].tolist() == list(range(8 * number, 8 * number + 8))
        seen |= set(batch["inputs"].ravel()) | set(batch["labels"].ravel())
    assert seen == set(TOKENS)


def test_a_batch_is_a_function_of_its_number_and_the_seed():
    one, same, other = (Windows(TOKENS, length=4, rows=8, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_equal(one[3], same[3])
    assert (one[3]["inputs"] != other[3]["inputs"]).any()
    assert (one[3]["inputs"] != one[4]["inputs"]).any()
    assert one.identity == same.identity != other.identity


@pytest.mark.parametrize("count", [2, 13, 49, 50])
def test_each_token_but_the_first_is_judged_once(count):
    batches = list(consecutive(TOKENS[:count], length=4, rows=3))
    labels = np.concatenate([batch["labels"] for batch in batches])
    assert labels[labels > 0].tolist() == TOKENS[1:count].tolist()
    index = np.concatenate([batch["index"] for batch in batches])
    assert ((index >= 0) == (labels > 0).any(1)).all()
    assert {batch["labels"].shape for batch in batches} == {(3, 4)}


def test_too_short_a_sequence_is_refused():
    with pytest.raises(ValueError, match="more than 50 tokens"):
        Windows(TOKENS, length=50, rows=1)
    with pytest.raises(ValueError, match="length and rows of at least 1"):
        Windows(TOKENS, length=0, rows=1)
