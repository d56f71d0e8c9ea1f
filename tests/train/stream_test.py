import numpy as np

from attn_jax.train.stream import Stream


def test_a_stream_goes_back_to_where_it_was():
    draw = lambda n: {"index": np.array([n * n])}  # noqa: E731
    stream, other = Stream(draw), Stream(draw)
    for _ in range(3):
        next(stream)
    other.set_state(stream.get_state())
    assert next(other)["index"] == next(stream)["index"] == 9
