import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.decode import Beam, score
from attn_jax.decode.stream import Shapes, stream
from attn_jax.decode.translate import TargetLength, translate
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions

pytestmark = pytest.mark.slow  # long compilations

VOCABULARY = 23
BEAM = Beam(3, best=3)
LENGTH = TargetLength(ratio=1.0, extra=4, longest=12)


@pytest.fixture(scope="module")
def model():
    sizes = TransformerConfig(VOCABULARY, None, 1, 1, BlockOptions(width=16, hidden=32, heads=2))
    model = Transformer(sizes, rngs=nnx.Rngs(0))
    graph, params = nnx.split(model)
    params = jax.tree.map(lambda x: 3 * x if x.ndim == 2 else x, params)  # far from uniform
    return nnx.merge(graph, params)


@pytest.fixture(scope="module")
def search(model):
    graph, params = nnx.split(model)

    @functools.partial(jax.jit, static_argnames="options")
    def run(source, options):
        return translate(nnx.merge(graph, params), source, options, length=LENGTH)

    return run


@pytest.fixture(scope="module")
def forward(model):
    graph, params = nnx.split(model)
    return jax.jit(lambda source, inputs: nnx.merge(graph, params)(source, inputs))


SOURCE = np.array(
    [[5, 9, 12, 3, 2, 0, 0, 0], [7, 7, 20, 11, 4, 6, 8, 2], [15, 2, 0, 0, 0, 0, 0, 0]]
)
SOURCE = np.concatenate([SOURCE, np.zeros((1, 8), int)]).astype(np.int32)


def words(found, row, i=0):
    return found.tokens[row, i, : found.lengths[row, i]].tolist()


def test_a_greedy_translation_is_what_the_whole_model_would_write_word_by_word(search, forward):
    found = search(SOURCE, None)
    inputs = np.zeros((4, 12), np.int32)
    inputs[:, 0] = 1
    for t in range(11):
        logits = np.array(forward(SOURCE, inputs)[:, t])
        logits[:, :2] = -np.inf
        inputs[:, t + 1] = logits.argmax(-1)
    for row in range(3):
        y = words(found, row)
        limit = LENGTH.limits(jnp.asarray(SOURCE))[row]
        assert y[:-1] == inputs[row, 1 : len(y)].tolist()
        assert y[-1] == 2
        assert len(y) == limit or inputs[row, len(y)] == 2


def test_a_beams_log_probabilities_are_those_of_a_forced_decoding(search, forward):
    found = search(SOURCE, BEAM)
    for i in range(3):
        labels = found.tokens[:, i]
        inputs = jnp.concatenate([jnp.ones((4, 1), jnp.int32), labels[:, :-1]], 1)
        forced = score(forward(SOURCE, inputs), labels)
        np.testing.assert_allclose(
            forced.total[:3], found.log_probabilities[:3, i], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("options", [None, BEAM])
def test_a_sentence_alone_or_beside_a_long_one_is_translated_the_same(search, options):
    sources = [[5, 9, 12, 3], [15], [8] * 5, [11, 4, 20, 3, 9, 17, 6]]
    shapes = Shapes(tokens=4 * 8, longest=8)

    def run(lines):
        return list(stream(lines, lambda source: search(source, options), shapes=shapes))

    together = run(sources)
    for line, found in zip(sources, together):
        assert run([line]) == [found]
    reversed_too = run(sources[::-1])[::-1]
    assert [found.tokens for found in reversed_too] == [found.tokens for found in together]


def test_a_row_of_padding_ends_at_once(search):
    assert search(SOURCE, BEAM).lengths[3, 0] == 1


def test_limits_follow_the_source_and_never_exceed_the_buffer():
    length = TargetLength(1.5, 2, 10)
    source = jnp.array([[5, 2, 0, 0, 0, 0, 0], [5, 5, 5, 5, 5, 5, 2], [0] * 7])
    assert length.limits(source).tolist() == [5, 10, 1]
    assert [length.of(width) for width in (1, 2, 3, 99)] == [3, 5, 6, 10]
    for ratio in (-1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="ratio >= 0"):
            TargetLength(ratio)
