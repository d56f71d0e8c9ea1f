"""The attention of any model through any backend that takes it, with the same results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import backends, masks, models
from attn_jax.modules.blocks import BlockOptions

pytestmark = pytest.mark.slow

BLOCKS = BlockOptions(width=8, hidden=12, heads=2, epsilon=1e-5)
IDS = jnp.asarray(np.random.default_rng(0).integers(2, 11, (2, 14)))
REAL = jnp.arange(14) < jnp.array([[14], [9]])
IMAGES = np.random.default_rng(1).normal(size=(2, 10, 12, 1))
PADDED = {"mask": masks.valid(REAL)}
IS_GLOBAL = {"is_global": jnp.arange(14) == jnp.array([[3], [0]])}


def encoder(kind, config, **given):
    return lambda: kind(config, rngs=nnx.Rngs(0)), (IDS,), PADDED | given


def causal(model, config, **sizes):
    return lambda: model(config(11, 14, 2, BLOCKS, **sizes), rngs=nnx.Rngs(0)), (IDS,), PADDED


def translator(kind, config):
    return lambda: kind(config, rngs=nnx.Rngs(0)), (jnp.where(REAL, IDS, 0), IDS[:, :5]), {}


def vision(kind, config):
    return lambda: kind(config, rngs=nnx.Rngs(0)), (jnp.asarray(IMAGES),), {}


BERT = dict(vocabulary=11, positions=20, segments=1, layers=2, blocks=BLOCKS)
CASES = {
    "BERT": encoder(models.Bert, models.BertConfig(**BERT)),
    "Longformer": encoder(
        models.Longformer, models.LongformerConfig(**BERT, windows=(2, 4)), **IS_GLOBAL
    ),
    "BigBird": encoder(
        models.BigBird, models.BigBirdConfig(**BERT, block=1, random_blocks=1, seed=None)
    ),
    "GPT": causal(models.GPT, models.GPTConfig),
    "GPT, ALiBi": causal(models.GPT, models.GPTConfig, kind="alibi"),
    "ImageGPT": causal(models.ImageGPT, models.ImageGPTConfig),
    "Sparse Transformer": causal(
        models.SparseTransformer, models.SparseTransformerConfig,
        stride=3, summary=1, grid=(2, 7), mix="heads",
    ),
    "Linear Transformer": causal(models.LinearTransformer, models.LinearTransformerConfig),
    "Performer": causal(models.Performer, models.PerformerConfig, features=6),
    "Transformer": translator(
        models.Transformer, models.TransformerConfig(11, None, 1, 1, BLOCKS, positions="t5")
    ),
    "Bahdanau": translator(models.Bahdanau, models.RecurrentConfig(11, None, 8, 6, 5)),
    "ViT": vision(models.ViT, models.ViTConfig((10, 12), 2, 1, 5).sized(8, 2, 2)),
    "Swin": vision(models.Swin, models.SwinConfig(2, 1, 5).sized(8, (2, 1), (1, 2))),
}  # fmt: skip
LINEAR = ("Linear Transformer", "Performer")
FUSED = [name for name in CASES if name not in (*LINEAR, "Bahdanau")]  # a softmax of products
PAIRS = [
    *((name, backend) for name in CASES for backend in ("blockwise", "auto")),
    *((name, "linear") for name in LINEAR),
    *((name, "fused") for name in FUSED),
]
BACKENDS = {"blockwise": backends.blockwise(tile=(4, 5))}


@pytest.fixture(scope="module")
def said():
    """What a model says through a backend, once for each."""
    found = {}

    def say(name, backend):
        if (name, backend) not in found:
            make, inputs, given = CASES[name]
            model = jax.tree.map(lambda x: x, make())
            for _, module in nnx.iter_modules(model):
                if hasattr(module, "backend"):
                    module.backend = BACKENDS.get(backend, backend)
            graph, state = nnx.split(model)
            call = jax.jit(lambda state: nnx.merge(graph, state)(*inputs, **given))
            found[name, backend] = np.asarray(call(state))
        return found[name, backend]

    return say


@pytest.mark.parametrize(("name", "backend"), PAIRS)
def test_a_model_says_the_same_through_any_backend(name, backend, said):
    right, found = said(name, "dense"), said(name, backend)
    if found.shape[:2] == REAL.shape and name not in ("Transformer", "Bahdanau"):
        right, found = right[REAL], found[REAL]
    assert np.ptp(right) > 0.1
    np.testing.assert_allclose(found, right, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(("name", "backend"), [("BERT", "linear"), ("Bahdanau", "fused")])
def test_a_backend_that_cannot_says_why(name, backend, said):
    with pytest.raises(ValueError, match=backend):
        said(name, backend)
