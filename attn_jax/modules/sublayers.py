"""What stands in a block beside attention: the feed-forward network, and the residual sum."""

from __future__ import annotations

from collections.abc import Callable

import jax
from flax import nnx

from attn_jax.functional.dropout import Dropout
from attn_jax.modules.attention import initializer
from attn_jax.modules.block_options import ACTIVATIONS, BlockOptions

Array = jax.Array


class FeedForward(nnx.Module):
    r"""Two linear maps with an activation between, :math:`W_2\, a(W_1 x + b_1) + b_2`.

    Each position by itself.

    Reference: Vaswani et al. (2017), equation 2.

    >>> import jax.numpy as jnp
    >>> FeedForward(BlockOptions(width=8, hidden=16), rngs=nnx.Rngs(0))(jnp.ones((2, 8))).shape
    (2, 8)
    """

    def __init__(self, options: BlockOptions, *, rngs: nnx.Rngs) -> None:
        width, hidden = options.width, options.hidden
        self.inner = nnx.Linear(width, hidden, kernel_init=initializer, rngs=rngs)
        self.outer = nnx.Linear(hidden, width, kernel_init=initializer, rngs=rngs)
        self.activation = options.activation
        self.dropout = options.activation_dropout

    def __call__(self, x: Array, *, noise: Dropout | None = None) -> Array:
        """`*b t m` to `*b t m`."""
        hidden = ACTIVATIONS[self.activation](self.inner(x))
        if noise is not None and self.dropout:
            hidden = noise.at(0, self.dropout).on_features(hidden)
        return self.outer(hidden)


class Residual(nnx.Module):
    """A sublayer's normalisation, dropout and residual sum, in pre- or post-norm order."""

    def __init__(self, options: BlockOptions, *, rngs: nnx.Rngs) -> None:
        self.norm = options.layer_norm(rngs)
        self.first = options.norm == "pre"
        self.dropout = options.dropout

    def __call__(
        self, x: Array, sublayer: Callable[[Array], Array], noise: Dropout | None = None
    ) -> Array:
        """``x + sublayer(norm(x))`` or ``norm(x + sublayer(x))``."""
        y = sublayer(self.norm(x) if self.first else x)
        if noise is not None and self.dropout:
            y = noise.at(0, self.dropout).on_features(y)
        return x + y if self.first else self.norm(x + y)
