"""Gated recurrent units: one step, a scan over a padded sequence, and both directions at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

Array = jax.Array
_orthogonal = nnx.initializers.orthogonal()


class GRU(nnx.Module):
    r"""A gated recurrent unit.

    .. math:: r &= \sigma(x W_r + b_r + h U_r + c_r) \\
              z &= \sigma(x W_z + b_z + h U_z + c_z) \\
              n &= \tanh(x W_n + b_n + r \odot (h U_n + c_n)) \\
              h' &= (1 - z) \odot n + z \odot h

    The reset gate acts after the product with the state, as in torch and cuDNN; the three parts
    stand side by side in the parameters, in the order r, z, n.

    Args:
      width: m, of the inputs.
      hidden: n, of the state.
      rngs: where the initial parameters come from.

    Reference: Cho et al. (2014), section 2.3.

    >>> jax.eval_shape(lambda: GRU(4, 8, rngs=nnx.Rngs(0))(jnp.ones((2, 3, 4)))).shape
    (2, 3, 8)
    """

    def __init__(self, width: int, hidden: int, *, rngs: nnx.Rngs) -> None:
        def orthogonal(key: Array, shape: tuple[int, ...], dtype: object) -> Array:
            parts = [_orthogonal(k, (hidden, hidden), dtype) for k in jax.random.split(key, 3)]
            return jnp.concatenate(parts, axis=-1)

        self.inputs = nnx.Linear(width, 3 * hidden, rngs=rngs)
        self.recurrence = nnx.Linear(hidden, 3 * hidden, kernel_init=orthogonal, rngs=rngs)
        self.hidden = hidden

    def step(self, inputs: Array, state: Array) -> Array:
        """The next state.

        Args:
          inputs: `… 3n`, what ``self.inputs`` made of x, to be made for a whole sequence at once.
          state: `… n`.

        Returns:
          `… n`.
        """
        reset, update, candidate = jnp.split(inputs, 3, axis=-1)
        from_reset, from_update, from_state = jnp.split(self.recurrence(state), 3, axis=-1)
        z = jax.nn.sigmoid(update + from_update)
        n = jnp.tanh(candidate + jax.nn.sigmoid(reset + from_reset) * from_state)
        return n + z * (state - n)

    def __call__(
        self,
        x: Array,
        *,
        real: Array | None = None,
        initial: Array | None = None,
        reverse: bool = False,
    ) -> Array:
        """The states after each position.

        Args:
          x: `b t m`.
          real: `b t`, which positions are not padding; at padding the state stays as it is. So the
            last state is that of the last real position, and in reverse, with padding behind, the
            walk begins there.
          initial: `b n`, the state before; zeros by default.
          reverse: walk from the last position to the first; the state at t has then seen t and all
            after it.

        Returns:
          `b t n`.
        """
        inputs = jnp.moveaxis(self.inputs(x), 1, 0)
        kept = jnp.ones(inputs.shape[:2], bool) if real is None else real.T

        def walk(state: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
            inputs, kept = at
            state = jnp.where(kept[:, None], self.step(inputs, state), state)
            return state, state

        zeros = jnp.zeros((x.shape[0], self.hidden), inputs.dtype)
        state = zeros if initial is None else initial
        return jnp.moveaxis(jax.lax.scan(walk, state, (inputs, kept), reverse=reverse)[1], 0, 1)


class BidirectionalGRU(nnx.Module):
    """Two gated recurrent units, one walking forward and one backward, side by side.

    Args:
      width: m, of the inputs.
      hidden: n, of each direction's state.
      rngs: where the initial parameters come from.

    Reference: Schuster and Paliwal (1997).

    >>> jax.eval_shape(lambda: BidirectionalGRU(4, 8, rngs=nnx.Rngs(0))(jnp.ones((2, 3, 4)))).shape
    (2, 3, 16)
    """

    def __init__(self, width: int, hidden: int, *, rngs: nnx.Rngs) -> None:
        self.forward = GRU(width, hidden, rngs=rngs)
        self.backward = GRU(width, hidden, rngs=rngs)

    def __call__(self, x: Array, *, real: Array | None = None) -> Array:
        """`b t m` to `b t 2n`, the forward states first; arguments as for :class:`GRU`."""
        ahead = self.forward(x, real=real)
        return jnp.concatenate([ahead, self.backward(x, real=real, reverse=True)], axis=-1)
