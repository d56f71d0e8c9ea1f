"""Everything a training run is at one moment, as one pytree."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from attn_jax.train.optimizers import Optimizer
from attn_jax.train.precision import LossScale, Precision


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Parameters, optimiser state, and what else the next step depends on, except the data.

    Attributes:
      params: the parameters, any pytree of floating-point arrays.
      opt_state: the optimiser's state.
      step: how many batches have been taken; int32.
      failures: how many of the last steps in a row had a loss or gradient that was not finite;
        int32. Such a step changes nothing but the counters.
      rng: the root key, typed; it never changes, and keys are folded from it.
      ema: exponential moving average of the parameters, or None.
      scale: of the loss, where it is computed in float16, or None.
      statistics: what the loss carries from batch to batch and no gradient moves, as the running
        means of batch normalisation, or None.
    """

    params: PyTree
    opt_state: PyTree
    step: Int[Array, ""]
    failures: Int[Array, ""]
    rng: Key[Array, ""]
    ema: PyTree | None = None
    scale: LossScale | None = None
    statistics: PyTree | None = None

    @classmethod
    def create(
        cls,
        params: PyTree,
        optimizer: Optimizer | optax.GradientTransformation,
        rng: Key[Array, ""],
        *,
        ema: bool = False,
        precision: Precision = Precision(),  # noqa: B008
        statistics: PyTree | None = None,
    ) -> "State":
        """The state before the first step.

        Args:
          params: initial parameters.
          optimizer: what will update them.
          rng: typed root key of dropout and other draws.
          ema: whether to keep an average of the parameters.
          precision: what the step computes in.
          statistics: before the first batch, where the loss carries some.

        Raises:
          TypeError: the key is not a typed one.

        >>> state = State.create({"w": jnp.ones(2)}, optax.sgd(0.1), jax.random.key(0))
        >>> int(state.step), state.ema
        (0, None)
        """
        if not jnp.issubdtype(jnp.asarray(rng).dtype, jax.dtypes.prng_key):
            raise TypeError(f"expected a typed key, as of jax.random.key, got {rng!r}")
        return cls(
            params=params,
            opt_state=optimizer.init(params),
            step=jnp.zeros((), jnp.int32),
            failures=jnp.zeros((), jnp.int32),
            rng=rng,
            ema=jax.tree.map(jnp.copy, params) if ema else None,
            scale=precision.initial_scale(),
            statistics=statistics,
        )

    @property
    def averaged(self) -> PyTree:
        """The averaged parameters where they are kept, else the parameters."""
        return self.params if self.ema is None else self.ema


def average(states: Sequence[State]) -> State:
    """The last state, with the mean of all states' parameters: checkpoint averaging.

    Args:
      states: at least one, of the same shapes; `ema` is averaged too where it is kept.

    Returns:
      A state for evaluation; means are taken in float32 and keep each parameter's dtype.

    Raises:
      ValueError: no states.

    Reference: Vaswani et al. (2017), section 6.1.

    >>> first, last = (
    ...     State.create({"w": jnp.full(1, x)}, optax.sgd(0.1), jax.random.key(0)) for x in (1., 3.)
    ... )
    >>> average([first, last]).params
    {'w': Array([2.], dtype=float32)}
    """
    if not states:
        raise ValueError("expected at least one state to average, got none")

    def mean(*leaves: Array) -> Array:
        dtype = jnp.promote_types(leaves[0].dtype, jnp.float32)
        stacked = jnp.stack([leaf.astype(dtype) for leaf in leaves])
        return jnp.mean(stacked, axis=0).astype(leaves[0].dtype)

    params = jax.tree.map(mean, *(state.params for state in states))
    ema = jax.tree.map(mean, *(state.ema for state in states))
    return dataclasses.replace(states[-1], params=params, ema=ema)
