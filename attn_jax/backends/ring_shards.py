"""How the positions of a sequence are dealt to the devices of a ring, and how blocks travel on it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.functional.value import Array, Value


class Shards(Value):
    """An axis cut over `devices` of the mesh axis `name`.

    In order "contiguous" device i holds the i-th of n equal chunks. In order "zigzag" it holds the
    chunks i and 2n − 1 − i of 2n, so that under a causal mask all devices have the same work.
    """

    name: str
    devices: int
    order: str

    @property
    def chunks(self) -> int:
        """The number of chunks that each device holds."""
        return 2 if self.order == "zigzag" else 1

    def here(self) -> Array:
        """The number of this device on the axis."""
        return jax.lax.axis_index(self.name)

    def starts(self, device: Any, size: int) -> list[Any]:
        """Where in the whole the chunks of a device begin, if it holds `size` entries."""
        if self.order == "zigzag":
            size //= 2
            return [device * size, (2 * self.devices - 1 - device) * size]
        return [device * size]

    def indices(self, device: Any, size: int) -> Array:
        """The indices in the whole of the entries of a device, `size`, int32."""
        each = jnp.arange(size // self.chunks, dtype=jnp.int32)
        return jnp.concatenate([start + each for start in self.starts(device, size)])

    def take(self, x: Array, device: Any, size: int, axis: int) -> Array:
        """The entries of a device of an array that has them all."""
        starts = self.starts(device, size)
        axis %= x.ndim
        cut = [jax.lax.dynamic_slice_in_dim(x, n, size // len(starts), axis) for n in starts]
        return cut[0] if len(cut) == 1 else jnp.concatenate(cut, axis)

    def holders(self) -> np.ndarray:
        """The device that holds each chunk of the whole."""
        n = self.devices
        chunks = np.arange(self.chunks * n)
        return np.minimum(chunks, 2 * n - 1 - chunks) if self.order == "zigzag" else chunks

    def deal(self, x: Array, axis: int) -> Array:
        """A device's entries in this order, of those it holds in contiguous order."""
        if self.order == "contiguous":
            return x
        first, second = jnp.split(x, 2, axis)
        holders = self.holders()
        even = self._permute(first, holders[0::2])
        odd = self._permute(second, holders[1::2])
        low_is_even = self.here() % 2 == 0
        low, high = jnp.where(low_is_even, even, odd), jnp.where(low_is_even, odd, even)
        return jnp.concatenate([low, high], axis)

    def collect(self, x: Array, axis: int) -> Array:
        """The inverse of :meth:`deal`."""
        if self.order == "contiguous":
            return x
        low, high = jnp.split(x, 2, axis)
        low_is_even = self.here() % 2 == 0
        even, odd = jnp.where(low_is_even, low, high), jnp.where(low_is_even, high, low)
        back = [np.argsort(self.holders()[parity::2]) for parity in (0, 1)]
        first, second = self._permute(even, back[0]), self._permute(odd, back[1])
        return jnp.concatenate([first, second], axis)

    def forward(self, tree: Any, distance: int) -> Any:
        """What the device `distance` places before holds, arrays of any kind."""
        if distance % self.devices == 0:
            return tree
        goal = (np.arange(self.devices) + distance) % self.devices
        return jax.tree.map(lambda x: self._permute(x, goal), tree)

    def _permute(self, x: Array, goal: Any) -> Array:
        """Entries sent from device i to device ``goal[i]``."""
        return jax.lax.ppermute(x, self.name, [(i, int(j)) for i, j in enumerate(goal)])
