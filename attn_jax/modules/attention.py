"""Multi-head attention: projections around ``attend``."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from attn_jax.backends.dispatch import attention_weights
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything
from attn_jax.functional.positions import rotary
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.functional.tiles import Positions, Range
from attn_jax.modules.watching import look

Array = jax.Array
initializer = nnx.initializers.xavier_uniform()


class MultiHeadAttention(nnx.Module):
    r"""Queries of x look at keys of x or of a memory, in h heads side by side.

    .. math:: y = \mathrm{concat}_i(\mathrm{attend}(x W^Q_i, x' W^K_i, x' W^V_i))\, W^O

    There x' is the memory, or x itself; each projection adds a bias besides.

    The mechanism is data: ``attention.rule = trainable(Rule(bias=biases.alibi(8)))`` replaces it in
    a loaded model. ``attention.backend`` says how it is evaluated.

    Args:
      width: m, the width of what comes in and of what goes out.
      heads: h, the number of query heads; divides `width` unless `depth` is given.
      key_value_heads: g, the number of key and value heads; divides h, which it is by default.
      depth: d, the width of a head; width / heads by default.
      rule: how queries meet keys.
      dropout: the rate at which weights are dropped when a call has a source of draws.
      turned: whether queries and keys are rotated by where they stand (rotary positions).
      rngs: where the initial parameters come from.

    Raises:
      ValueError: heads that do not divide.

    References: Vaswani et al. (2017), section 3.2.2; grouped queries: Ainslie et al. (2023); rotary
    positions: Su et al. (2021).

    >>> import jax.numpy as jnp
    >>> from attn_jax import masks
    >>> attention = MultiHeadAttention(8, 2, rngs=nnx.Rngs(0))
    >>> attention(jnp.ones((3, 5, 8)), mask=masks.causal()).shape
    (3, 5, 8)
    """

    rule: Rule = nnx.data()

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_value_heads: int | None = None,
        depth: int | None = None,
        rule: Rule = Rule(),  # noqa: B008
        dropout: float = 0.0,
        turned: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        groups = heads if key_value_heads is None else key_value_heads
        if depth is None and width % heads:
            raise ValueError(
                f"heads must divide the width, or depth must be given: width {width}, {heads} heads"
            )
        if heads % groups:
            raise ValueError(
                f"key_value_heads must divide heads: got {groups} key and value heads, {heads} heads"
            )
        self.heads, self.groups = heads, groups
        self.depth = width // heads if depth is None else depth
        self.rule = rule
        self.backend: Any = "auto"
        self.dropout, self.turned = dropout, turned
        self.query = nnx.Linear(width, heads * self.depth, kernel_init=initializer, rngs=rngs)
        self.key = nnx.Linear(width, groups * self.depth, kernel_init=initializer, rngs=rngs)
        self.value = nnx.Linear(width, groups * self.depth, kernel_init=initializer, rngs=rngs)
        self.out = nnx.Linear(heads * self.depth, width, kernel_init=initializer, rngs=rngs)

    def __call__(
        self,
        x: Array,
        memory: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
        positions: Positions | str | None = None,
        noise: Dropout | None = None,
    ) -> Array:
        """Looks at x itself, or at a memory.

        Args:
          x: `*b t m`.
          memory: `*b s m`, or None for self-attention.
          mask: joined to the rule's with ``&``, as for a batch's padding.
          positions: as for ``attend``.
          noise: a source of dropout draws; None for none.

        Returns:
          `*b t m`.
        """
        memory = x if memory is None else memory
        k, v = self.project(memory, at=_places(positions, x, memory).k)
        return self.look(x, k, v, mask=mask, positions=positions, noise=noise)

    def project(self, memory: Array, *, at: Any = None) -> tuple[PreparedKeys, Array]:
        """Keys, prepared for the rule's score, and values; what a cache keeps.

        Args:
          memory: `*b s m`.
          at: where it stands, `s` or `*b s`, as in ``Positions``; from 0 on where None.
        """
        k = self._turn(split_heads(self.key(memory), self.groups), at)
        return self.rule.prepare(k), split_heads(self.value(memory), self.groups)

    def look(
        self,
        x: Array,
        k: Array | PreparedKeys,
        v: Array,
        *,
        mask: Mask = everything(),  # noqa: B008
        positions: Positions | str | None = None,
        noise: Dropout | None = None,
    ) -> Array:
        """Looks at keys and values that were projected before: `*b t m` to `*b t m`."""
        q = split_heads(self.query(x), self.heads)
        y = look(
            self,
            self._turn(q, _places(positions, x, v[..., 0, :]).q),
            k,
            v,
            rule=self.rule_of(x.shape[-2]) & mask,
            positions=positions,
            dropout=None if noise is None else noise.at(0, self.dropout),
            backend=self.backend,
        )
        return self.out(y.reshape(*y.shape[:-2], self.heads * self.depth))

    def step(
        self,
        x: Array,
        cache: Any,
        *,
        mask: Mask = everything(),  # noqa: B008
        noise: Dropout | None = None,
    ) -> tuple[Array, Any]:
        """Self-attention of the newest tokens, with all before them in a cache.

        Args:
          x: `*b t m`, the tokens that follow those in the cache.
          cache: what was seen before; it appends keys and values, and says which are filled and
            where they stand (``attn_jax.decode.cache.KeyValues``).
          mask: joined to the rule's; over all positions that the cache has room for.
          noise: a source of dropout draws; None for none.

        Returns:
          `*b t m`, and the longer cache.
        """
        k, v = (split_heads(part(x), self.groups) for part in (self.key, self.value))
        cache = cache.append(self._turn(k, Range(cache.length, x.shape[-2])), v)
        y = self.look(
            x,
            cache.keys,
            cache.values,
            mask=mask & cache.filled,
            positions=cache.positions(x.shape[-2]),
            noise=noise,
        )
        return y, cache

    def weights(
        self,
        x: Array,
        memory: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
        positions: Positions | str | None = None,
    ) -> Array:
        """Where each head of each query looks, `*b h t s`; arguments as for a call."""
        memory = x if memory is None else memory
        at = _places(positions, x, memory)
        k, _ = self.project(memory, at=at.k)
        q = self._turn(split_heads(self.query(x), self.heads), at.q)
        rule = self.rule_of(x.shape[-2]) & mask
        return attention_weights(q, k, rule=rule, positions=positions)

    def rule_of(self, length: int) -> Rule:
        """The mechanism for so many queries: the same for any number, unless a subclass differs."""
        return self.rule

    def _turn(self, x: Array, at: Any) -> Array:
        """Queries or keys, `*b t h d`, rotated by their positions if they are to be."""
        if not self.turned:
            return x
        at = Range(0, x.shape[-3]) if at is None else at
        return rotary(x, at.array() if isinstance(at, Range) else at)


def _places(positions: Positions | str | None, x: Array, memory: Array) -> Positions:
    """Where queries of x, `*b t m`, and keys of a memory, `*b s m`, stand; at the start if not said."""
    if isinstance(positions, Positions):
        return positions
    return Positions.aligned(positions or "start", x.shape[-2], memory.shape[-2])


def split_heads(x: Array, heads: int) -> Array:
    """`*b t (h d)` to `*b t h d`."""
    return x.reshape(*x.shape[:-1], heads, -1)
