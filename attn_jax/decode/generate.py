"""Continuing a prompt with a decoder-only model: tokens in, hypotheses out, one pure function."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from attn_jax.decode.cache import Continuation
from attn_jax.decode.hypotheses import Hypotheses, Specials
from attn_jax.decode.search import Beam, Sample, search


def generate(
    model: Any,
    prompt: Array,
    options: Beam | Sample | None,
    *,
    length: int,
    specials: Specials,
    real: Array | None = None,
    rngs: Array | None = None,
) -> Hypotheses:
    """Continues a batch of prompts; jit it over the model's parameters, and it compiles once a shape.

    Args:
      model: a decoder-only model with `step`, such as :class:`attn_jax.models.GPT`.
      prompt: `b t` integers, at least one token each; shorter prompts are padded on the left.
      options: a beam search, or how to draw; None searches greedily.
      length: the most tokens of a continuation, its end token included; it ends there at the latest.
      specials: the ids that are not words; GPT-2 has one for all three, ``Specials(*[50256] * 3)``.
      real: `b t`, False for padding; all are real where None.
      rngs: `b` typed keys, to draw with.

    Returns:
      The continuations, `b n`, without the prompts, best first; `n` is 1 for a greedy search. Drawn
      ones are in no order.

    Raises:
      ValueError: the shapes do not fit, the model has fewer positions than are needed, or there are
        no keys to draw with.

    >>> import jax
    >>> from flax import nnx
    >>> from attn_jax.models.gpt import GPT, GPTConfig
    >>> from attn_jax.modules.blocks import BlockOptions
    >>> config = GPTConfig(11, 8, 1, BlockOptions(width=8, hidden=8, heads=2, norm="pre"))
    >>> def run(prompt):
    ...     model = GPT(config, rngs=nnx.Rngs(0))
    ...     return generate(model, prompt, None, length=4, specials=Specials())
    >>> jax.eval_shape(run, jnp.array([[3, 4, 5]])).tokens.shape
    (1, 1, 4)
    """
    size = 1 if options is None else options.size
    prompt = jnp.asarray(prompt)
    cache = Continuation.start(model, prompt, beams=size, length=length, real=real)
    limits, first = jnp.full(prompt.shape[0], length), prompt[:, -1]
    return search(
        model.step, cache, limits, options, rngs, length=length, specials=specials, first=first
    )
