"""Batches as a training run draws them: an endless iterator that knows where it is."""

from collections.abc import Callable
from typing import Any, Protocol

from attn_jax.train.sharding import Batch


class Batches(Protocol):
    """An endless iterator of batches that can say where it is and go back there."""

    def __next__(self) -> Batch:
        """The next batch."""

    def get_state(self) -> Any:
        """Where it is, as JSON can hold it."""

    def set_state(self, state: Any) -> None:
        """Goes to where it was."""


class Stream:
    """Batches that are a function of their number; for synthetic tasks.

    Args:
      draw: batch number, from 0, to batch.

    >>> import numpy as np
    >>> stream = Stream(lambda n: {"index": np.array([n])})
    >>> next(stream), next(stream), stream.get_state()
    ({'index': array([0])}, {'index': array([1])}, {'position': 2})
    """

    def __init__(self, draw: Callable[[int], Batch]):
        self._draw, self._position = draw, 0

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Batch:
        batch = self._draw(self._position)
        self._position += 1
        return batch

    def get_state(self) -> dict[str, int]:
        """The number of the next batch."""
        return {"position": self._position}

    def set_state(self, state: dict[str, int]) -> None:
        """Goes to a batch."""
        self._position = state["position"]
