"""One training step, and one pass of evaluation, as jitted functions over a mesh."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int, Key, PyTree

from attn_jax.train.losses import Sums
from attn_jax.train.optimizers import Optimizer
from attn_jax.train.precision import Precision
from attn_jax.train.sharding import Batch, Layout
from attn_jax.train.state import State

Loss = Callable[..., Any]
"""(params, batch, rngs) to `Sums` over real tokens; `rngs` has a key for each row, or is None where
nothing is to be drawn. Where the state has statistics, (params, batch, rngs, statistics) to the sums and
the next statistics; where nothing is drawn those are not used."""

Metrics = dict[str, Any]
"""`sums` of the loss, `gradient_norm`, `learning_rate` where the optimiser tells it, and `applied`:
whether the step changed the parameters. With a scaled loss `loss_scale`, and `overflow`: whether
that is why it did not."""


def example_keys(rng: Key[Array, ""], step: Int[Array, ""], index: Int[Array, "b"]) -> Array:
    """A key for each example, of the step and the example alone.

    So neither the mesh, nor accumulation, nor a row's place in its batch changes a draw.

    Args:
      rng: the root key.
      step: batches taken so far.
      index: `b`, the examples' numbers.

    Returns:
      Typed keys, `b`.

    >>> keys = example_keys(jax.random.key(0), jnp.int32(3), jnp.array([4, 5, -1]))
    >>> swapped = example_keys(jax.random.key(0), jnp.int32(3), jnp.array([5, 4, -1]))
    >>> bool((keys[0] == swapped[1]) & (keys[0] != keys[1]))
    True
    """
    fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    return fold(jax.random.fold_in(rng, step), index.astype(jnp.uint32))


@dataclasses.dataclass(frozen=True)
class Step:
    """A compiled-once-per-shape training step; made by `make_step`.

    Attributes:
      update: the jitted function of (state, placed batch); it donates the state.
      layout: where the state and the batches live.
      accumulate: micro-batches a batch is cut into.
      skip: how many steps in a row may be not finite.
    """

    update: Callable[[State, Mapping[str, Array]], tuple[State, Metrics]]
    layout: Layout
    accumulate: int
    skip: int

    def __call__(self, state: State, batch: Batch) -> tuple[State, Metrics]:
        """The next state, and what the step measured, both still on the device.

        Args:
          state: consumed: its buffers are reused for the next one.
          batch: host arrays; rows are padded where devices or micro-batches do not divide them.
            On several hosts, this one's share of the rows.
        """
        return self.update(state, self.layout.place_batch(batch, accumulate=self.accumulate))

    def place(self, state: State) -> State:
        """A copy of a state where this step wants it; the original stays usable."""
        return self.layout.place(state)


def make_step(
    loss: Loss,
    optimizer: Optimizer | optax.GradientTransformation,
    layout: Layout | Mesh | None = None,
    *,
    accumulate: int = 1,
    ema_decay: float = 0.999,
    skip: int = 0,
    precision: Precision = Precision(),  # noqa: B008
) -> Step:
    r"""A training step: gradients of Σ loss / Σ count over devices and micro-batches, one update.

    A step whose loss or gradient is not finite leaves parameters, optimiser and average as they
    are. Up to `skip` such steps in a row are passed over; at the next, the state stops changing
    altogether, so that it is still the last good one when the host comes to look.

    Args:
      loss: see `Loss`.
      optimizer: what turns gradients into updates.
      layout: where the state and the batches live; batches shared by all devices by default.
      accumulate: micro-batches whose gradients are summed one after the other, for memory.
      ema_decay: d of the average kept where the state has one,
        :math:`\bar\theta \leftarrow d_n \bar\theta + (1 - d_n) \theta` with
        :math:`d_n = \min(d, (1 + n) / (10 + n))`.
      skip: how many steps in a row may be not finite.
      precision: what the loss is computed in; let the state be created with the same.

    Returns:
      A function of (state, batch) to (state, metrics).

    Raises:
      ValueError: an argument is out of range.
    """
    if accumulate < 1 or skip < 0 or not 0 <= ema_decay < 1:
        raise ValueError(
            "expected accumulate >= 1, skip >= 0 and 0 <= ema_decay < 1, "
            f"got {accumulate}, {skip} and {ema_decay}"
        )
    layout = Layout.of(layout)

    def gradient(
        state: State, statistics: PyTree | None, batch: Mapping[str, Array], rngs: Array
    ) -> tuple[tuple[PyTree, Sums], PyTree | None]:
        def total(params: PyTree) -> tuple[Array, tuple[Sums, PyTree | None]]:
            params = layout.gathered(precision.cast(params))
            sums, after = _called(loss, params, batch, rngs, statistics)
            objective = sums["loss"] if state.scale is None else sums["loss"] * state.scale.value
            return objective, (sums, after)

        gradients, (sums, after) = jax.grad(total, has_aux=True)(state.params)
        return (layout.stored(gradients), sums), after

    def accumulated(
        state: State, batch: Mapping[str, Array], rngs: Array
    ) -> tuple[tuple[PyTree, Sums], PyTree | None]:
        if accumulate == 1:
            return gradient(state, state.statistics, batch, rngs)

        def cut(array: Array) -> Array:
            # Strided, so that each device's rows stay on it.
            parts = jnp.moveaxis(array.reshape(-1, accumulate, *array.shape[1:]), 1, 0)
            spec = PartitionSpec(None, *layout.of_rows(parts.shape[1:]).spec)
            return jax.lax.with_sharding_constraint(parts, NamedSharding(layout.mesh, spec))

        parts = jax.tree.map(cut, (dict(batch), rngs))
        first, rest = (jax.tree.map(lambda x, at=at: x[at], parts) for at in (0, slice(1, None)))

        def add(so_far: Any, part: Any) -> tuple[Any, None]:
            total, statistics = so_far
            found, statistics = gradient(state, statistics, *part)
            return (jax.tree.map(jnp.add, total, found), statistics), None

        return jax.lax.scan(add, gradient(state, state.statistics, *first), rest)[0]

    def update(state: State, batch: Mapping[str, Array]) -> tuple[State, Metrics]:
        rngs = example_keys(state.rng, state.step, batch["index"])
        scale = state.scale
        (gradients, sums), statistics = accumulated(state, batch, rngs)
        count = jnp.maximum(sums["count"], 1)
        gradients = jax.tree.map(lambda g: (g / count.astype(float)).astype(g.dtype), gradients)
        if scale is not None:
            unscaled = jnp.reciprocal(scale.value)  # exact: a power of two
            gradients = jax.tree.map(lambda g: (g * unscaled).astype(g.dtype), gradients)
        norm = optax.tree.norm(gradients)
        finite = jnp.isfinite(sums["loss"]) & jnp.isfinite(norm)
        applied = finite & (state.failures <= skip)
        failures = jnp.where(applied, 0, jnp.minimum(state.failures + 1, skip + 1))
        metrics = {"sums": sums, "gradient_norm": norm, "applied": applied}
        if scale is not None:
            overflow = jnp.isfinite(sums["loss"]) & ~finite & (state.failures <= skip)
            overflow &= scale.value > 1
            failures = jnp.where(overflow, state.failures, failures)
            metrics |= {"overflow": overflow, "loss_scale": scale.value}
            scale = precision.next_scale(scale, applied, overflow)

        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        ema = state.ema
        if ema is not None:
            n = state.step.astype(jnp.float32)
            decay = jnp.minimum(ema_decay, (1 + n) / (10 + n))
            ema = jax.tree.map(lambda a, p: a + (1 - decay).astype(a.dtype) * (p - a), ema, params)

        def keep(new: PyTree, old: PyTree) -> PyTree:
            return jax.tree.map(lambda n, o: jnp.where(applied, n, o), new, old)

        if isinstance(optimizer, Optimizer):
            metrics["learning_rate"] = optimizer.learning_rate(state.opt_state)
        after = State(
            params=keep(params, state.params),
            opt_state=keep(opt_state, state.opt_state),
            step=state.step + (failures <= skip),
            failures=failures,
            rng=state.rng,
            ema=keep(ema, state.ema),
            scale=scale,
            statistics=keep(statistics, state.statistics),
        )
        return layout.stored(after), jax.lax.with_sharding_constraint(metrics, layout.whole)

    return Step(jax.jit(update, donate_argnums=0), layout, accumulate, skip)


def make_evaluate(
    loss: Loss,
    layout: Layout | Mesh | None = None,
    precision: Precision = Precision(),  # noqa: B008
) -> Callable[..., dict[str, float]]:
    """A function of (params, batches) to means over all real tokens, nothing drawn.

    Where the loss carries statistics, of (params, batches, statistics).

    Args:
      loss: see `Loss`; it is called with `rngs=None`.
      layout: as for `make_step`.
      precision: as for `make_step`.

    Returns:
      A function whose result is that of `means` of the sums over all batches; on several hosts each
      gives its share of their rows, as in training.
    """
    layout = Layout.of(layout)

    def sums_in(params: PyTree, batch: Mapping[str, Array], statistics: PyTree | None) -> Sums:
        params = layout.gathered(precision.cast(params))
        return _called(loss, params, batch, None, statistics)[0]

    sums_of = jax.jit(sums_in, out_shardings=layout.whole)

    def evaluate(
        params: PyTree, batches: Iterable[Batch], statistics: PyTree | None = None
    ) -> dict[str, float]:
        params = jax.device_put(params, layout.shardings(params))
        sums = [sums_of(params, layout.place_batch(batch), statistics) for batch in batches]
        if not sums:
            raise ValueError("expected at least one batch to evaluate on, got none")
        totals = {name: 0.0 for name in sums[0]}
        for part in jax.device_get(sums):
            totals = {name: total + float(part[name]) for name, total in totals.items()}
        return means(totals)

    return evaluate


def _called(
    loss: Loss, params: PyTree, batch: Mapping[str, Array], rngs: Any, statistics: PyTree | None
) -> tuple[Sums, PyTree | None]:
    if statistics is None:
        return loss(params, batch, rngs), None
    return loss(params, batch, rngs, statistics)


def means(sums: Mapping[str, float]) -> dict[str, float]:
    """Sums over real tokens as means per token; `correct` becomes `accuracy`.

    >>> means({"loss": 6.0, "count": 4, "correct": 3})
    {'loss': 1.5, 'accuracy': 0.75}
    """
    count = max(sums["count"], 1)
    per_token = {"loss": sums["loss"] / count}
    for name, total in sums.items():
        if name != "count":
            per_token["accuracy" if name == "correct" else name] = total / count
    return per_token
