"""How a model knows where its tokens stand: added vectors, rotations, or biases by distance."""

from __future__ import annotations

from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.biases import alibi, t5
from attn_jax.functional.positions import sinusoidal
from attn_jax.functional.rule import Rule
from attn_jax.modules.embeddings import LearnedEmbedding

Array = jax.Array

Kind = Literal["sinusoidal", "learned", "rotary", "alibi", "t5", "none"]
"""Sinusoids or learned vectors that are added to embeddings; rotations of queries and keys; a
penalty by distance or a learned number for each bucket of distances that is added to scores; or
nothing, for which a causal mask alone tells places apart."""

BUCKETS = 32


def checked(kind: str) -> Kind:
    """The kind, if it is one.

    Raises:
      ValueError: it is not; the message lists them.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"positions must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    return kind  # type: ignore[return-value]


class AddedPositions(nnx.Module):
    """Embeddings with the vectors of their positions added, where the kind has such.

    Args:
      kind: of positions.
      width: m.
      longest: how many positions have a learned vector.
      interleaved: of sinusoids, as of ``positions.sinusoidal``.
      rngs: where the initial vectors come from.

    References: Vaswani et al. (2017), section 3.5; Gehring et al. (2017), section 3.1.

    >>> added = AddedPositions("none", 4, 16, rngs=nnx.Rngs(0))
    >>> added(jnp.ones((2, 3, 4)), jnp.arange(3)).shape
    (2, 3, 4)
    """

    def __init__(
        self, kind: Kind, width: int, longest: int, interleaved: bool = True, *, rngs: nnx.Rngs
    ) -> None:
        self.kind, self.interleaved = kind, interleaved
        if kind == "learned":
            self.learned = LearnedEmbedding(longest, width, rngs=rngs)

    def check(self, length: int) -> None:
        """Raises ValueError unless sequences of some length have their positions."""
        if self.kind == "learned" and length > self.learned.size:
            raise ValueError(
                f"a sequence of {length} tokens is longer than the {self.learned.size} positions that"
                " were learned"
            )

    def __call__(self, x: Array, positions: Array) -> Array:
        """Embeddings `… t m` at positions `t` or `… t` to `… t m`."""
        if self.kind == "sinusoidal":
            waves = sinusoidal(positions, x.shape[-1], interleaved=self.interleaved)
            return x + waves.astype(x.dtype)
        return x + self.learned(positions) if self.kind == "learned" else x


def biased(rule: Rule, kind: Kind, heads: int, *, bidirectional: bool) -> Rule:
    """A rule for self-attention with the bias of its positions, where the kind has one.

    ALiBi's slopes stay as they are; T5's table of 32 buckets is a parameter, which all layers that
    are given this rule share, as T5's do. It starts at zero: at first all distances are alike.

    Args:
      rule: the mechanism otherwise.
      kind: of positions.
      heads: h.
      bidirectional: whether keys after the query have buckets of their own.

    References: Press et al. (2022), section 3; Raffel et al. (2020), section 2.1.

    >>> biased(Rule(), "alibi", 4, bidirectional=True)
    Rule(bias=alibi(slopes=float32[4]))
    """
    bias: Any = None
    if kind == "alibi":
        bias = alibi(heads)
    elif kind == "t5":
        table = t5(jnp.zeros((BUCKETS, heads)), bidirectional=bidirectional)
        bias = jax.tree.map(nnx.Param, table)
    if bias is None:
        return rule
    return rule.replace(bias=bias if rule.bias is None else rule.bias + bias)
