"""Small models with drawn numbers, made without running an initializer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.modules.blocks import BlockOptions

BERT = BertConfig(
    vocabulary=23,
    positions=12,
    layers=1,
    blocks=BlockOptions(width=8, hidden=12, heads=2, activation="gelu", epsilon=1e-12),
    head="masked_language_model",
)
GPT_ = GPTConfig(
    vocabulary=23,
    positions=12,
    layers=1,
    blocks=BlockOptions(
        width=8, hidden=12, heads=2, norm="pre", activation="gelu_tanh", epsilon=1e-5
    ),
)


@functools.cache
def shaped(config):
    """A Bert or a GPT without numbers, split."""
    kind = Bert if isinstance(config, BertConfig) else GPT
    return nnx.split(nnx.eval_shape(lambda: kind(config, rngs=nnx.Rngs(0))))


def drawn(config, seed=0):
    """A Bert or a GPT whose every number is drawn."""
    graph, state = shaped(config)
    rng = np.random.default_rng(seed)
    numbers = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), x.dtype), state)
    return nnx.merge(graph, numbers)


def parameters(model):
    """Arrays by path."""
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {".".join(map(str, path)): np.asarray(value[...]) for path, value in flat}
