import itertools
import tracemalloc

import numpy as np
import pytest

from attn_jax.decode.hypotheses import Hypotheses
from attn_jax.decode.stream import Found, Shapes, stream


def reverse(source):
    """A search that answers with each source reversed."""
    rows, width = source.shape
    tokens = np.zeros((rows, 1, width), np.int32)
    lengths = (source > 0).sum(-1, keepdims=True)
    for row, n in enumerate(lengths[:, 0]):
        tokens[row, 0, : n - 1] = source[row, : n - 1][::-1]
        tokens[row, 0, n - 1 : n] = 2
    scores = 1.0 - lengths
    return Hypotheses(tokens, lengths, scores, scores)


class Recorder:
    """Notes the shapes it is called with."""

    def __init__(self):
        self.shapes = []

    def __call__(self, source):
        self.shapes.append(source.shape)
        return reverse(source)


def lines(count, longest=60, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 99, n).tolist() for n in rng.integers(1, longest, count)]


def test_every_line_is_answered_in_order_whatever_the_chunk():
    sources, recorder = lines(200), Recorder()
    for chunk in (1, 7, 1000):
        found = stream(sources, recorder, shapes=Shapes(tokens=256), chunk=chunk)
        assert [answer.tokens for answer in found] == [[source[::-1]] for source in sources]
    assert len(set(recorder.shapes)) <= 7
    assert all(rows * width <= 256 for rows, width in recorder.shapes)


def test_an_empty_line_stays_empty_and_is_never_searched_for():
    recorder = Recorder()
    found = list(stream([[5, 6], [], [7]], recorder))
    assert [answer.tokens for answer in found] == [[[6, 5]], [[]], [[7]]]
    assert list(stream([[], []], recorder)) == [Found([[]], [0.0], [0.0])] * 2
    assert list(stream([], recorder)) == []
    assert len(recorder.shapes) == 1


def test_a_line_that_is_too_long_is_cut_and_says_so_and_is_answered():
    long = list(range(3, 99)) * 4
    found = list(stream([[5], long, [6]], Recorder(), shapes=Shapes(longest=20)))
    assert [answer.cut for answer in found] == [0, len(long) + 1 - 20, 0]
    assert found[1].tokens == [long[:19][::-1]]
    fits = list(stream([long[:19]], Recorder(), shapes=Shapes(longest=20)))
    assert fits[0].cut == 0


def test_a_line_meets_the_same_shape_alone_and_in_company():
    for n in (1, 7, 8, 11, 40):
        alone, together = Recorder(), Recorder()
        list(stream([[5] * n], alone))
        list(stream([*lines(50), [5] * n], together))
        assert alone.shapes[0] in together.shapes


def test_only_hypotheses_that_exist_are_returned():
    def two(source):
        one = reverse(source)
        pair = Hypotheses(*(np.concatenate([x, np.zeros_like(x)], 1) for x in one))
        return pair._replace(scores=np.concatenate([one.scores, one.scores - np.inf], 1))

    (found,) = stream([[5, 6]], two)
    assert found == Found([[6, 5]], [-2.0], [-2.0])


def test_memory_does_not_grow_with_the_stream_and_no_answer_waits_for_its_end():
    endless = itertools.cycle(lines(64, longest=20))
    found = stream(endless, Recorder(), shapes=Shapes(tokens=512), chunk=64)
    for _ in range(64):
        next(found)
    tracemalloc.start()
    for _ in range(64 * 20):
        next(found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_widths_cover_every_length_and_waste_at_most_half():
    shapes = Shapes(longest=1000)
    for n in range(1, 1001):
        assert n <= shapes.width(n) <= max(8, 1.5 * n)
    assert len({shapes.width(n) for n in range(1, 1001)}) == 15


def test_devices_can_share_the_rows_of_every_shape():
    shapes = Shapes(tokens=100, divisor=8)
    assert [shapes.rows(width) for width in (4, 8, 16, 200)] == [24, 8, 8, 8]


@pytest.mark.parametrize("options", [{"tokens": 0}, {"longest": 0}, {"divisor": 0}])
def test_shapes_without_room_are_refused(options):
    with pytest.raises(ValueError, match="at least 1, got Shapes"):
        Shapes(**options)


def test_a_chunk_of_nothing_is_refused():
    with pytest.raises(ValueError, match="chunk >= 1"):
        next(stream([[5]], reverse, chunk=0))
