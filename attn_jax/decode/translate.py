"""Translation with an encoder-decoder: a source in, hypotheses out, one pure function."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from attn_jax.decode.cache import Cache
from attn_jax.decode.coverage import covering
from attn_jax.decode.hypotheses import SPECIALS, Hypotheses, Specials, Step
from attn_jax.decode.search import Beam, Sample, search


@dataclass(frozen=True)
class TargetLength:
    """How long a translation may become, in tokens and with its end: ratio · source + extra.

    A limit near the lengths that occur makes a beam search stop sooner, since it bounds what an
    unfinished hypothesis can still come to.

    Args:
      ratio: of the source's length, its end token included.
      extra: on top of that.
      longest: and never more than this.

    Raises:
      ValueError: a number is out of its range.

    >>> TargetLength(2.0, 10, 100).limits(jnp.array([[5, 6, 2, 0], [0, 0, 0, 0]])).tolist()
    [16, 1]
    """

    ratio: float = 2.0
    extra: int = 10
    longest: int = 256

    def __post_init__(self) -> None:
        if not 0 <= self.ratio < math.inf or self.extra < 0 or self.longest < 1:
            raise ValueError(f"expected ratio >= 0, extra >= 0 and longest >= 1, got {self}")

    def of(self, width: int) -> int:
        """The limit for a source of `width` tokens."""
        return max(1, min(math.floor(self.ratio * width) + self.extra, self.longest))

    def limits(self, source: Array, *, pad: int = 0) -> Array:
        """The limit of each row, `b`, of a padded source, `b s`; 1 for a row of padding."""
        real = jnp.sum(source != pad, axis=-1)
        limits = jnp.floor(self.ratio * real).astype(jnp.int32) + self.extra
        return jnp.where(real == 0, 1, jnp.clip(limits, 1, self.longest))


def translate(
    model: Any,
    source: Array,
    options: Beam | Sample | None,
    *,
    length: TargetLength = TargetLength(),
    specials: Specials = SPECIALS,
    rngs: Array | None = None,
) -> Hypotheses:
    """Translates a batch; jit it over the model's parameters, and it compiles once for each shape.

    Args:
      model: an encoder-decoder with `step`: one made of decoder blocks, such as
        :class:`attn_jax.models.Transformer`, or one that brings a cache of its own, by
        `start(source, beams=…, length=…)`, such as :class:`attn_jax.models.Bahdanau`.
      source: `b s` int32, tokens and the end token, padded.
      options: of the beam search, or how to draw; None searches greedily.
      length: how long the translations may become.
      specials: the ids that are not words.
      rngs: `b` typed keys, to draw with.

    Returns:
      The hypotheses, `b n`, best first; `n` is 1 for a greedy search. Drawn ones are in no order.

    Raises:
      ValueError: there are no keys to draw with, or a coverage penalty is asked of a model that does
        not look at its source.
    """
    most = length.of(source.shape[-1])
    limits = length.limits(source, pad=specials.pad)
    size = 1 if options is None else options.size
    start = getattr(model, "start", functools.partial(Cache.start, model))
    cache = start(source, beams=size, length=most)
    step: Step = model.step
    if isinstance(options, Beam) and options.coverage_penalty:
        step, cache = covering(model, cache, source != specials.pad, size)
    return search(step, cache, limits, options, rngs, length=most, specials=specials)
