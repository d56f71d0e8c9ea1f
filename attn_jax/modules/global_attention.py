"""Longformer's attention: tokens that see and are seen by all have projections of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
from flax import nnx

from attn_jax.backends.dispatch import attention_weights
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Mask
from attn_jax.functional.masks import everything, global_tokens
from attn_jax.functional.rule import Rule
from attn_jax.modules.attention import MultiHeadAttention, initializer, split_heads
from attn_jax.modules.block_options import BlockOptions
from attn_jax.modules.watching import look

Array = jax.Array


class Sight(NamedTuple):
    """What one part of the tokens looks with, `*b t h d` each, and at what."""

    q: Array
    k: Array
    v: Array
    rule: Rule


class GlobalAttention(MultiHeadAttention):
    r"""Attention in which global tokens have projections of their own.

    .. math:: y_i = \mathrm{attend}(x_i W^Q, x W^K, x W^V) \text{ of a token that is not global, }
              \mathrm{attend}(x_i W^{Q_g}, x W^{K_g}, x W^{V_g}) \text{ of one that is}

    Both are the module's rule, in whose mask all see global tokens, and these see all.

    Args:
      options: the sizes.
      rule: how queries meet keys; its mask says who sees whom where no token is global.
      rngs: where the initial parameters come from.

    Reference: Beltagy, Peters and Cohan (2020), section 3.1 (linear projections).
    """

    def __init__(self, options: BlockOptions, *, rule: Rule, rngs: nnx.Rngs) -> None:
        super().__init__(
            options.width, options.heads, rule=rule, dropout=options.attention_dropout, rngs=rngs
        )
        self.global_query, self.global_key, self.global_value = (
            nnx.Linear(options.width, options.width, kernel_init=initializer, rngs=rngs)
            for _ in range(3)
        )

    def __call__(  # type: ignore[override]
        self,
        x: Array,
        is_global: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
        noise: Dropout | None = None,
    ) -> Array:
        """`*b t m` to `*b t m`; `is_global`, `*b t` booleans, says which tokens are; None: none is."""
        y: Any = 0  # a token that is not of a part sees nothing in it, and gets exact zeros
        for i, (q, k, v, rule) in enumerate(self._parts(x, is_global, mask)):
            dropout = None if noise is None else noise.at(i, self.dropout)
            y = y + look(self, q, k, v, rule=rule, dropout=dropout, backend=self.backend)
        return self.out(y.reshape((*x.shape[:-1], -1)))

    def weights(  # type: ignore[override]
        self,
        x: Array,
        is_global: Array | None = None,
        *,
        mask: Mask = everything(),  # noqa: B008
    ) -> Array:
        """Where each head of each query looks, `*b h t t`; arguments as for a call."""
        parts = self._parts(x, is_global, mask)
        return sum(attention_weights(q, k, rule=rule) for q, k, _, rule in parts)  # type: ignore[return-value]

    def _parts(self, x: Array, is_global: Array | None, mask: Mask) -> Iterator[Sight]:
        """Of the tokens that are not global, and of those that are."""

        def sight(rule: Rule, *projections: nnx.Linear) -> Sight:
            q, k, v = (split_heads(projection(x), self.heads) for projection in projections)
            return Sight(q, k, v, rule)

        near = self.query, self.key, self.value
        if is_global is None:
            yield sight(self.rule & mask, *near)
            return
        far = self.global_query, self.global_key, self.global_value
        reach = self.rule.mask | global_tokens(queries=is_global, keys=is_global)
        rule, those = self.rule.replace(mask=reach) & mask, global_tokens(queries=is_global)
        yield sight(rule & ~those, *near)
        yield sight(rule & those, *far)
