"""From a token of the last layer back to the inputs: what came through which weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

Array = jax.Array


def rollout(layers: Sequence[Array], residual: float = 0.5) -> Array:
    r"""How much of each input token reaches each token of the last layer, if paths mix linearly.

    .. math:: R_l = (r I + (1 - r) \bar A_l)\, R_{l-1}, \quad R_0 = I

    with :math:`\bar A_l` the mean over heads, its rows summing to 1.

    Args:
      layers: weights of self-attention, first layer first, each `*b h t t`.
      residual: r, the share that passes beside attention.

    Returns:
      `*b t t`; rows sum to 1.

    Raises:
      ValueError: no layers, or weights that are not of a sequence on itself.

    Reference: Abnar and Zuidema (2020), section 3.

    >>> rollout([jnp.array([[[1.0, 0.0], [1.0, 0.0]]])] * 2)
    Array([[1.  , 0.  ],
           [0.75, 0.25]], dtype=float32)
    """
    mixing = _mixing(layers, residual)
    through = mixing[0]
    for layer in mixing[1:]:
        through = layer @ through
    return through


def flow(layers: Sequence[Array], residual: float = 0.5) -> np.ndarray:
    r"""The most that can flow from each input token to each token of the last layer.

    The weights, mixed as in :func:`rollout`, are capacities of a network of tokens; what flows is the
    maximum flow, to one part in a million.

    Args:
      layers: weights of self-attention of one sequence, first layer first, each `h t t`.
      residual: the share that passes beside attention.

    Returns:
      `t t`; 0 where no path leads, at most 1.

    Raises:
      ValueError: no layers, or weights that are not `h t t`.

    Reference: Abnar and Zuidema (2020), section 3.

    >>> flow([np.array([[[1.0, 0.0], [1.0, 0.0]]])] * 2)
    array([[1. , 0. ],
           [1. , 0.5]])
    """
    if any(np.ndim(weights) != 3 for weights in layers):
        raise ValueError(
            f"expected the weights of one sequence, h t t; got {[np.shape(w) for w in layers]}"
        )
    mixing = [np.asarray(layer) for layer in _mixing(layers, residual)]
    t, unit = mixing[0].shape[-1], 1_000_000
    tails, heads, capacities = [], [], []
    for depth, layer in enumerate(mixing):  # token j of layer `depth` feeds token i of the next
        i, j = np.nonzero(layer)
        tails.append(depth * t + j)
        heads.append((depth + 1) * t + i)
        capacities.append(np.rint(layer[i, j] * unit).astype(np.int32))
    size = (len(mixing) + 1) * t
    edges = np.concatenate(capacities), (np.concatenate(tails), np.concatenate(heads))
    network = coo_array(edges, (size, size)).tocsr()
    flows = np.zeros((t, t))
    for source in range(t):
        for sink in range(t):
            found = maximum_flow(network, source, len(mixing) * t + sink)
            flows[sink, source] = found.flow_value / unit
    return flows


def causal_leak(f: Callable[[Array], Array], x: Array, rng: Array | None = None) -> Array:
    r"""How strongly each output of a sequence depends on each input: `t t`, row i for output i.

    Entry (i, j) is :math:`\|\partial (u^\top y_i) / \partial x_j\|` for one random direction u: it is 0
    with probability 1 only where :math:`\partial y_i / \partial x_j` is. In a causal model all above
    the diagonal are exactly 0; something else there is a future that is visible.

    Args:
      f: `t m` to `t n`, as a model from embeddings to states or logits.
      x: where to differentiate, `t m`, of floating point.
      rng: where u comes from; ``jax.random.key(0)`` by default.

    Returns:
      `t t`.

    >>> leak = causal_leak(lambda x: jnp.cumsum(x, 0), jnp.ones((3, 2)))
    >>> bool((jnp.triu(leak, 1) == 0).all() & (jnp.tril(leak) > 0).any())
    True
    """
    y, pull = jax.vjp(f, x)
    u = jax.random.normal(jax.random.key(0) if rng is None else rng, y.shape, y.dtype)
    axes = tuple(range(1, y.ndim))

    def reach(i: Array) -> Array:
        here = jnp.expand_dims(jnp.arange(len(y)) == i, axes)
        (slope,) = pull(jnp.where(here, u, 0))
        return jnp.linalg.norm(slope.reshape(len(x), -1), axis=-1)

    return jax.lax.map(reach, jnp.arange(len(y)))


def _mixing(layers: Sequence[Array], residual: float) -> list[Array]:
    """The mean over heads of each layer's weights with its residual, `*b t t`, rows summing to 1."""
    if not layers:
        raise ValueError("expected the weights of at least one layer, got none")
    mixed = []
    for weights in map(jnp.asarray, layers):
        if weights.ndim < 3 or weights.shape[-1] != weights.shape[-2]:
            raise ValueError(f"expected weights *b h t t of self-attention, got {weights.shape}")
        mean = weights.mean(-3)
        total = mean.sum(-1, keepdims=True)
        eye = jnp.eye(mean.shape[-1], dtype=mean.dtype)
        mean = jnp.where(total > 0, mean / jnp.where(total > 0, total, 1), eye)
        mixed.append(residual * eye + (1 - residual) * mean)
    return mixed
