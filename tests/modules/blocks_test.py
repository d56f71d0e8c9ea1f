"""Blocks and embeddings: order of normalisation, dropout that follows the example, ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Dropout
from attn_jax.functional.positions import sinusoidal
from attn_jax.modules.blocks import BlockOptions, EncoderBlock, FeedForward, Residual
from attn_jax.modules.embeddings import TokenEmbedding, add_sinusoids

OPTIONS = BlockOptions(width=8, hidden=16, heads=2, dropout=0.5, activation_dropout=0.5)


def standardised(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_normalisation_comes_before_the_sublayer_or_after_the_sum(norm):
    residual = Residual(BlockOptions(width=8, heads=2, norm=norm), rngs=nnx.Rngs(0))
    x = np.float64(jax.random.normal(jax.random.key(0), (2, 3, 8)))

    def sublayer(y):
        return 3 * y + 1

    right = x + sublayer(standardised(x)) if norm == "pre" else standardised(x + sublayer(x))
    np.testing.assert_allclose(residual(jnp.asarray(x, jnp.float32), sublayer), right, atol=1e-5)


def test_the_feed_forward_network_is_its_formula():
    network = FeedForward(OPTIONS, rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(0), (3, 8))
    inner, outer = (
        (np.float64(p.kernel[...]), np.float64(p.bias[...])) for p in (network.inner, network.outer)
    )
    right = np.maximum(np.float64(x) @ inner[0] + inner[1], 0) @ outer[0] + outer[1]
    np.testing.assert_allclose(network(x), right, atol=1e-6)


@pytest.mark.slow
def test_dropout_in_a_block_follows_the_example_and_not_its_company():
    block = EncoderBlock(OPTIONS, rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(0), (3, 4, 8))
    keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(5), n))(jnp.arange(3))
    together = block(x, noise=Dropout(0.5, keys))
    alone = block(x[1:2], noise=Dropout(0.5, keys[1:2]))
    np.testing.assert_allclose(together[1:2], alone, atol=1e-6)
    assert jnp.abs(together - block(x)).max() > 0.1


def test_the_same_table_embeds_and_gives_logits():
    embedding = TokenEmbedding(11, 4, rngs=nnx.Rngs(0))
    table = np.asarray(embedding.table[...])
    np.testing.assert_allclose(embedding(jnp.array([3])), 2 * table[3:4], rtol=1e-6)
    np.testing.assert_allclose(embedding.logits(table[:2]), table[:2] @ table.T, atol=1e-6)


def test_sinusoids_are_added_where_the_tokens_stand():
    x = jnp.zeros((2, 3, 6))
    np.testing.assert_allclose(
        add_sinusoids(x, 4 + jnp.arange(3))[0], sinusoidal(jnp.arange(7), 6)[4:], atol=1e-6
    )


def test_unknown_options_are_refused_with_what_is_allowed():
    with pytest.raises(ValueError, match='"pre" or "post"'):
        BlockOptions(norm="both")
    with pytest.raises(ValueError, match="relu, gelu, gelu_tanh, gelu_sigmoid, silu"):
        BlockOptions(activation="tanh")
