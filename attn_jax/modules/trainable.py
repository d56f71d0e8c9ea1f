"""A rule whose numbers are parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.functional.rule import Rule


def trainable(rule: Rule) -> Rule:
    """The same rule with each of its floating-point arrays made a Flax parameter.

    Put it in a module (``layer.self_attention.rule = trainable(rule)``) and it trains with the
    rest; ``attend`` accepts it as it is.

    Args:
      rule: any rule; its integers and booleans (ids, masks) stay as they are.

    Returns:
      The rule with an ``nnx.Param`` for each array of floats, of the same shape and dtype.

    >>> from attn_jax import normalizers
    >>> rule = trainable(Rule(normalizer=normalizers.softmax(sink=0.0)))
    >>> type(rule.normalizer.sink).__name__
    'Param'
    """

    def parameter(leaf: jax.Array) -> object:
        if isinstance(leaf, nnx.Variable) or not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        return nnx.Param(jnp.asarray(leaf))

    return jax.tree.map(parameter, rule, is_leaf=lambda x: isinstance(x, nnx.Variable))
