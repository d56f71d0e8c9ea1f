"""Where arrays live: two small tables say which axis of the mesh cuts which axis of an array."""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from attn_jax.train.mesh import data_mesh

Batch = Mapping[str, np.ndarray]
"""Arrays whose first axis is the row; `index` is the example's number, −1 for a padding row."""

RULES: Mapping[str, tuple[str, ...]] = {
    "rows": ("data", "fsdp"),
    "length": ("context",),
    "embed": ("fsdp",),
    "heads": ("tensor",),
    "mlp": ("tensor",),
    "vocab": ("tensor",),
}
"""What an axis of an array is for, to the mesh axes that cut it; what is not here stays whole."""

WHERE_IT_DIVIDES = frozenset({"length", "vocab"})
"""Axes whose size nobody chooses freely: cut where the mesh divides them, else whole."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the arrays of a training run live on a mesh.

    The axes of a parameter are named by `names`; its optimiser moments and its average have paths
    that end as its own does, and lie where it lies. A matrix that `names` does not know has its
    longest axis that `fsdp` divides cut by it.

    Attributes:
      mesh: of `device_mesh`.
      names: the end of a leaf's dotted path, a regular expression, to what each of its axes is for.
      rules: what an axis is for, to mesh axes.

    >>> from attn_jax.train.mesh import device_mesh
    >>> layout = Layout(device_mesh(), names={"kernel": ("embed", "mlp")})
    >>> layout.check("mlp", 512, "the hidden width")
    >>> placed = layout.place({"inner": {"kernel": np.ones((2, 4))}})
    >>> placed["inner"]["kernel"].sharding.mesh.axis_names
    ('data', 'fsdp', 'context', 'tensor')
    """

    mesh: Mesh
    names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    rules: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=lambda: RULES)

    @classmethod
    def of(cls, given: "Layout | Mesh | None") -> "Layout":
        """A layout as it is; that of a mesh, by default of `data_mesh()`, with no names."""
        return given if isinstance(given, Layout) else cls(given or data_mesh())

    def check(self, use: str, size: int, what: str) -> None:
        """Refuses a size that the mesh cannot share out.

        Args:
          use: what the axis is for, as in `rules`.
          size: of the axis.
          what: what to call it in the message.

        Raises:
          ValueError: the mesh axes do not divide it.
        """
        self._cut(use, size, what)

    def shardings(self, state: PyTree) -> PyTree:
        """Where each leaf of a state, or of its parameters, lives between steps."""
        return jax.tree_util.tree_map_with_path(self._stored, state)

    def stored(self, state: PyTree) -> PyTree:
        """The same values, inside a compiled program, where they live between steps."""
        return jax.lax.with_sharding_constraint(state, self.shardings(state))

    def gathered(self, params: PyTree) -> PyTree:
        """The same parameters, inside a compiled program, where they are computed with.

        That is whole along `fsdp`, whose devices have different rows to use them on; from there,
        what becomes of activations follows from the rows and from `tensor`.
        """
        if self.mesh.shape["fsdp"] == 1:
            return params

        def whole(sharding: NamedSharding) -> NamedSharding:
            cuts = (cut if isinstance(cut, tuple) else (cut,) for cut in sharding.spec)
            return self._sharding([[a for a in cut if a not in (None, "fsdp")] for cut in cuts])

        shardings = jax.tree.map(whole, self.shardings(params))
        return jax.lax.with_sharding_constraint(params, shardings)

    def place(self, state: PyTree) -> PyTree:
        """A copy of a state where it lives between steps; the original's buffers stay the caller's.

        On several hosts each gives the whole of the same state.
        """
        return jax.tree.map(_copied, state, self.shardings(state))

    def place_batch(self, batch: Batch, *, accumulate: int = 1) -> dict[str, jax.Array]:
        """A batch on its devices, padded so that devices and accumulation divide its rows.

        On several hosts each gives its own share of the rows, `self.share`.
        """
        number = self.share[1]
        padded = pad_rows(batch, self.rows * accumulate // number)
        shapes = {name: (number * len(x), *x.shape[1:]) for name, x in padded.items()}
        shardings = {name: self.of_rows(shape) for name, shape in shapes.items()}
        if self._here:
            return jax.device_put(dict(padded), shardings)
        put = jax.make_array_from_process_local_data
        return {name: put(shardings[name], x, shapes[name]) for name, x in padded.items()}

    def place_rows(self, arrays: PyTree) -> PyTree:
        """Arrays of which every host has all rows, cut by rows alone."""

        def place(array: np.ndarray) -> jax.Array:
            sharding = self.of_rows(array.shape[:1])
            if self._here:
                return jax.device_put(array, sharding)
            return jax.make_array_from_process_local_data(sharding, array, array.shape)

        return jax.tree.map(place, arrays)

    def of_rows(self, shape: Sequence[int]) -> NamedSharding:
        """Where a batch's array lives: rows cut, and lengths, its second axis, where that goes."""
        uses = ("rows", "length")[: len(shape)]
        return self._sharding([self._cut(*pair, "a batch") for pair in zip(uses, shape)])

    @property
    def rows(self) -> int:
        """How many parts the rows of a batch are cut into."""
        return math.prod(self.mesh.shape[axis] for axis in self.rules["rows"])

    @property
    def whole(self) -> NamedSharding:
        """The whole array on every device."""
        return self._sharding([])

    @functools.cached_property
    def share(self) -> tuple[int, int]:
        """`(i, n)` where the rows of every batch come from n hosts and this is the i-th of them.

        Hosts whose devices hold the same rows, as where `tensor` spans them, count as one.

        Raises:
          ValueError: the hosts' devices do not hold equally many rows, or some overlap.
        """
        rows, axes = self.rows, list(self.mesh.shape)
        order = sorted(range(len(axes)), key=lambda n: axes[n] not in self.rules["rows"])
        owned: dict[int, set[int]] = {}
        for row, devices in enumerate(self.mesh.devices.transpose(order).reshape(rows, -1)):
            for device in devices:
                owned.setdefault(device.process_index, set()).add(row)
        parts = sorted({tuple(sorted(part)) for part in owned.values()})
        if sum(map(len, parts)) != rows or len(set(map(len, parts))) != 1:
            raise ValueError(
                f"expected hosts that have equally many rows each, got {parts} of {rows}; "
                "let the product of data and fsdp be a multiple of the number of hosts, or divide it"
            )
        mine = owned.get(jax.process_index())
        return parts.index(tuple(sorted(mine))) if mine else 0, len(parts)

    @functools.cached_property
    def _here(self) -> bool:
        return self.whole.is_fully_addressable

    def _stored(self, path: Any, leaf: Any) -> NamedSharding:
        name, shape = _dotted(path), jnp.shape(leaf)
        for pattern, uses in self.names.items():
            if re.search(rf"(^|\.)({pattern})$", name) and len(uses) == len(shape):
                return self._sharding([self._cut(*pair, name) for pair in zip(uses, shape)])
        parts = self.mesh.shape["fsdp"]
        divided = [n for n, size in enumerate(shape) if size % parts == 0]
        if len(shape) < 2 or not divided:
            return self.whole
        longest = max(divided, key=lambda n: shape[n])
        return self._sharding([("fsdp",) if n == longest else () for n in range(len(shape))])

    def _cut(self, use: str, size: int, what: str) -> tuple[str, ...]:
        """The mesh axes that cut an axis."""
        axes = tuple(self.rules.get(use, ()))
        parts = math.prod(self.mesh.shape[axis] for axis in axes)
        if size % parts == 0:
            return axes
        if use in WHERE_IT_DIVIDES or size == 1:
            return ()
        by = " × ".join(f"{axis} {self.mesh.shape[axis]}" for axis in axes)
        raise ValueError(
            f"expected the mesh to divide {what}: `{use}` is {size}, to be shared by {by}"
        )

    def _sharding(self, cuts: Sequence[Sequence[str]]) -> NamedSharding:
        """Spelt as JAX spells what a compiled program returns, so that the two are equal."""
        spec: list[Any] = []
        for cut in cuts:
            axes = tuple(axis for axis in cut if self.mesh.shape[axis] > 1)
            spec.append(axes if len(axes) > 1 else axes[0] if axes else None)
        while spec and spec[-1] is None:
            spec.pop()
        return NamedSharding(self.mesh, PartitionSpec(*spec))


def pad_rows(batch: Batch, multiple: int) -> Batch:
    """A batch with rows of zeros, and index −1, appended until `multiple` divides their number.

    Args:
      batch: arrays with the same first axis.
      multiple: at least 1.

    Raises:
      ValueError: the arrays differ in their first axis, or `index` is not among them.

    >>> pad_rows({"labels": np.array([[5, 2]]), "index": np.array([7])}, 2)
    {'labels': array([[5, 2], [0, 0]]), 'index': array([ 7, -1])}
    """
    if "index" not in batch:
        raise ValueError(f"expected an array `index` in the batch, got {sorted(batch)}")
    rows = {name: np.shape(array)[:1] for name, array in batch.items()}
    if len(set(rows.values())) != 1:
        raise ValueError(f"expected arrays with the same number of rows, got {rows}")
    missing = -len(batch["index"]) % multiple
    if not missing:
        return batch
    return {
        name: np.concatenate(
            [array, np.full((missing, *array.shape[1:]), -1 if name == "index" else 0, array.dtype)]
        )
        for name, array in ((name, np.asarray(array)) for name, array in batch.items())
    }


def _dotted(path: Any) -> str:
    """`encoder.0.norm.scale`; Flax's variables add the name of what holds their value."""
    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")


def _copied(x: Any, sharding: NamedSharding) -> jax.Array:
    """Leaf by leaf, so that no more than one of them is there twice."""
    if sharding.is_fully_addressable or not getattr(x, "is_fully_addressable", True):
        return jax.device_put(jnp.copy(x), sharding)
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        data = _copied(jax.random.key_data(x), sharding)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(x))
    host = np.asarray(x)
    return jax.make_array_from_process_local_data(sharding, host, host.shape)
