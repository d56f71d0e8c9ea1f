"""A beam with a coverage penalty ranks as the formula does, which is computed of forced decodings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.decode import Beam, score
from attn_jax.decode.coverage import LEAST
from attn_jax.decode.translate import TargetLength, translate
from attn_jax.models import Bahdanau, RecurrentConfig, Seq2Seq, Transformer, TransformerConfig
from attn_jax.modules.blocks import BlockOptions
from tests.decode import toy

pytestmark = pytest.mark.slow  # long compilations

VOCABULARY, LIMIT = 6, 4
SOURCE = jnp.array([[3, 5, 4, 2, 0], [5, 2, 0, 0, 0], [4, 3, 5, 5, 2]], jnp.int32)
MODELS = {
    "Transformer": lambda: Transformer(
        TransformerConfig(VOCABULARY, None, 1, 2, BlockOptions(8, 8, 2)), rngs=nnx.Rngs(0)
    ),
    "Bahdanau": lambda: Bahdanau(RecurrentConfig(VOCABULARY, None, 8, 6, 5), rngs=nnx.Rngs(0)),
}


@pytest.fixture(scope="module", params=MODELS)
def parts(request):
    """A model far from uniform, as a function of its parameters."""
    graph, params = nnx.split(MODELS[request.param]())
    params = jax.tree.map(lambda x: 3 * x if x.ndim == 2 else x, params)
    return graph, params


def ranked(parts, alpha, beta):
    """Every sequence of each row with its score, best first, in float64 from the formula."""
    graph, params = parts
    labels = np.zeros((0, LIMIT), np.int32)
    for y in toy.every_sequence(VOCABULARY, LIMIT):
        labels = np.concatenate([labels, [[*y, *[0] * (LIMIT - len(y))]]])
    inputs = np.concatenate([np.ones((len(labels), 1), np.int32), labels[:, :-1]], 1)

    @jax.jit
    def forced(source):
        model = nnx.merge(graph, params)
        sources = jnp.broadcast_to(source, (len(labels), len(source)))
        weights = model.cross_attention(sources, inputs)[-1].mean(1)
        return score(model(sources, inputs), jnp.asarray(labels)).total, weights

    found = []
    for source in SOURCE:
        totals, weights = (np.asarray(x, np.float64) for x in forced(source))
        scores = []
        for y, total, looks in zip(labels, totals, weights):
            steps = int((y != 0).sum())
            received = looks[:steps].sum(0)[np.asarray(source) != 0]
            covered = np.log(np.clip(received, LEAST, 1)).sum()
            scores.append(total / ((5 + steps) / 6) ** alpha + beta * covered)
        order = np.argsort(scores)[::-1]
        found.append([(scores[i], tuple(labels[i][labels[i] != 0].tolist())) for i in order])
    return found


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.7), (1.0, 3.0)])
def test_a_beam_as_wide_as_the_tree_finds_what_the_formula_ranks_first(parts, alpha, beta):
    options = Beam(27, alpha, best=3, coverage_penalty=beta)
    graph, params = parts
    length = TargetLength(0, LIMIT, LIMIT)
    found = jax.jit(lambda x: translate(nnx.merge(graph, params), x, options, length=length))(
        SOURCE
    )
    plain = ranked(parts, alpha, 0.0)
    for row, best in enumerate(ranked(parts, alpha, beta)):
        for i, (value, y) in enumerate(best[:3]):
            np.testing.assert_allclose(found.scores[row, i], value, rtol=1e-4, atol=1e-4)
            assert tuple(found.tokens[row, i, : found.lengths[row, i]].tolist()) == y
    assert [best[0] for best in ranked(parts, alpha, beta)] != [best[0] for best in plain]


def test_a_model_without_attention_is_refused():
    model = Seq2Seq(RecurrentConfig(VOCABULARY, None, 8, 6), rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match="Seq2Seq has no `step_and_look`"):
        translate(model, SOURCE, Beam(2, coverage_penalty=0.1))
