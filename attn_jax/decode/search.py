"""Searching for a sequence: greedily, with a beam, or by sampling.

Every search drives two pure functions and knows nothing of models:

    step(tokens, cache) -> (logits, cache)    one token for each of k hypotheses of each of b rows
    cache.select(parents) -> cache            hypothesis i of a row continues hypothesis parents[i]

with `tokens, parents: b k` int32 and `logits: b k v`. The searches are traced whole, so the caller
jits them together with whatever `step` closes over: one program for each shape.

A row never sees its neighbours. It is frozen when it has finished, the loop ends with the last row,
and a row's own limit, not the longest in the batch, bounds it. At its limit a hypothesis can only
end, so that every hypothesis is a whole sequence and its log-probability is the model's.
"""

from typing import Any

from jax import Array

from attn_jax.decode.beam import Beam as Beam
from attn_jax.decode.beam import beam as beam
from attn_jax.decode.hypotheses import SPECIALS
from attn_jax.decode.hypotheses import Hypotheses as Hypotheses
from attn_jax.decode.hypotheses import Specials as Specials
from attn_jax.decode.hypotheses import Step as Step
from attn_jax.decode.sampling import Sample as Sample
from attn_jax.decode.sampling import greedy as greedy
from attn_jax.decode.sampling import sample as sample


def search(
    step: Step,
    cache: Any,
    limits: Array,
    options: Beam | Sample | None,
    rngs: Array | None = None,
    *,
    length: int,
    specials: Specials = SPECIALS,
    first: Array | None = None,
) -> Hypotheses:
    """Searches as the options say.

    Args:
      step, cache, limits, length, specials, first: as for :func:`greedy`.
      options: of a beam search, or how to draw; None searches greedily.
      rngs: `b` typed keys, to draw with.

    Raises:
      ValueError: as for :func:`greedy` and :func:`beam`, or there are no keys to draw with.
    """
    if options is None:
        return greedy(step, cache, limits, length=length, specials=specials, first=first)
    if isinstance(options, Beam):
        return beam(step, cache, limits, options, length=length, specials=specials, first=first)
    if rngs is None:
        raise ValueError("to draw, give a key for each row: rngs=jax.random.split(key, b)")
    return sample(step, cache, limits, rngs, options, length=length, specials=specials, first=first)
