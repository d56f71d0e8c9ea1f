"""Optimisers: Optax chains with this project's conventions, and a learning rate one can read."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

_NEVER_DECAYED = re.compile(r"bias|norm|embed", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Optimizer:
    r"""A gradient transformation whose last act is to multiply by minus the learning rate.

    .. math:: \theta_n = \theta_{n-1} - \eta_n u_n

    It has Optax's `init` and `update`, and goes wherever Optax wants a `GradientTransformation`
    by its methods.

    Attributes:
      direction: u, what comes before the learning rate; moments, decay, clipping.
      schedule: η, the learning rate, a function of the number of updates made so far.

    >>> optimizer = Optimizer(optax.identity(), lambda count: 0.1)
    >>> state = optimizer.init(jnp.ones(2))
    >>> updates, state = optimizer.update(jnp.array([1.0, 2.0]), state, jnp.ones(2))
    >>> updates.round(3), optimizer.learning_rate(state)
    (Array([-0.1, -0.2], dtype=float32), Array(0.1, dtype=float32))
    """

    direction: optax.GradientTransformation
    schedule: optax.Schedule

    def init(self, params: PyTree) -> PyTree:
        """The state before the first update."""
        return self._chain().init(params)

    def update(self, gradients: PyTree, state: PyTree, params: PyTree) -> tuple[PyTree, PyTree]:
        """What to add to the parameters, and the next state."""
        return self._chain().update(gradients, state, params)

    def learning_rate(self, state: PyTree) -> Float[Array, ""]:
        """The rate that the next update will use; what `schedule` says of the updates made."""
        return jnp.asarray(self.schedule(state[-1].count), jnp.float32)

    def _chain(self) -> optax.GradientTransformation:
        # Always a schedule, so that the count is there even for a constant rate.
        return optax.chain(
            self.direction, optax.scale_by_schedule(lambda count: -self.schedule(count))
        )


def adamw(
    schedule: optax.Schedule,
    *,
    b1: float = 0.9,
    b2: float = 0.98,
    epsilon: float = 1e-9,
    decay: float = 0.0,
    clip: float | None = None,
) -> Optimizer:
    r"""Adam with decoupled weight decay; the defaults are those of the Transformer paper.

    .. math:: u = \hat m / (\sqrt{\hat v} + \varepsilon) + \lambda \theta

    The running means m of the gradient and v of its square are corrected for starting at 0.

    Args:
      schedule: the learning rate; it multiplies the decay too.
      b1: decay rate of m.
      b2: decay rate of v.
      epsilon: ε, added to the root.
      decay: λ, weight decay, of the parameters that `decays` picks.
      clip: largest global norm of the gradient; None leaves it.

    Raises:
      ValueError: a number is out of its range.

    References: Kingma and Ba (2015); Loshchilov and Hutter (2019), algorithm 2; Vaswani et al.
    (2017), section 5.3.
    """
    _check_rates(b1=b1, b2=b2)
    if not epsilon > 0:
        raise ValueError(f"expected a positive epsilon, got {epsilon}")
    return _optimizer(optax.scale_by_adam(b1, b2, epsilon), schedule, decay, clip)


def lion(
    schedule: optax.Schedule,
    *,
    b1: float = 0.9,
    b2: float = 0.99,
    decay: float = 0.0,
    clip: float | None = None,
) -> Optimizer:
    r"""Lion: the sign of an interpolated momentum; wants a rate about ten times below Adam's.

    .. math:: u = \mathrm{sign}(\beta_1 m + (1 - \beta_1) g) + \lambda \theta, \quad
              m \leftarrow \beta_2 m + (1 - \beta_2) g

    Args:
      schedule: the learning rate; it multiplies the decay too.
      b1: the momentum's share in the direction.
      b2: decay rate of the momentum.
      decay: λ, weight decay, of the parameters that `decays` picks.
      clip: largest global norm of the gradient; None leaves it.

    Raises:
      ValueError: a number is out of its range.

    Reference: Chen et al. (2023), algorithm 2.
    """
    _check_rates(b1=b1, b2=b2)
    return _optimizer(optax.scale_by_lion(b1, b2), schedule, decay, clip)


def adafactor(
    schedule: optax.Schedule,
    *,
    smallest_factored: int = 128,
    decay: float = 0.0,
    clip: float | None = None,
) -> Optimizer:
    r"""Adafactor: second moments of matrices kept as an outer product of row and column means.

    .. math:: u = \mathrm{rms}(\theta)\, \mathrm{clip}(g / \sqrt{\hat v}) + \lambda \theta, \quad
              \hat v_{ij} = r_i c_j / \bar r

    The running means r and c of the squared gradient are over the columns and over the rows.

    Args:
      schedule: the learning rate, relative to each parameter's root mean square.
      smallest_factored: matrices with a side below this keep full second moments.
      decay: λ, weight decay, of the parameters that `decays` picks.
      clip: largest global norm of the gradient; None leaves it (updates are clipped by block
        to a root mean square of 1 in any case).

    Raises:
      ValueError: a number is out of its range.

    Reference: Shazeer and Stern (2018), algorithm 4.
    """
    direction = optax.chain(
        optax.scale_by_factored_rms(min_dim_size_to_factor=smallest_factored),
        optax.clip_by_block_rms(1.0),
        optax.scale_by_param_block_rms(),
    )
    return _optimizer(direction, schedule, decay, clip)


def decays(params: PyTree) -> PyTree:
    """Which parameters weight decay is for: matrices that are no bias, norm or embedding.

    Args:
      params: parameters; a leaf's path says what it is for (`bias`, `norm` or `embed` in any of
        its names, in either case), and its number of axes whether it is a matrix.

    Returns:
      The same tree of booleans.

    >>> decays({"norm": {"scale": jnp.ones(2)}, "out": {"kernel": jnp.ones((2, 2))}})
    {'norm': {'scale': False}, 'out': {'kernel': True}}
    """

    def matrix(path: Any, leaf: Any) -> bool:
        return jnp.ndim(leaf) >= 2 and not _NEVER_DECAYED.search(jax.tree_util.keystr(path))

    return jax.tree_util.tree_map_with_path(matrix, params)


def _optimizer(
    direction: optax.GradientTransformation,
    schedule: Callable,
    decay: float,
    clip: float | None,
) -> Optimizer:
    if not decay >= 0:
        raise ValueError(f"expected a decay of at least 0, got {decay}")
    parts = [direction]
    if clip is not None:
        if not clip > 0:
            raise ValueError(f"expected a positive norm to clip to, or None, got {clip}")
        parts.insert(0, optax.clip_by_global_norm(clip))
    if decay:
        parts.append(optax.add_decayed_weights(decay, mask=decays))
    return Optimizer(optax.chain(*parts), schedule)


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"expected {name} in [0, 1), got {rate}")
