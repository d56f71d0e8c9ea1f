"""How fast steps go, by the clock."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from attn_jax.train.sharding import Batch


@dataclasses.dataclass
class _Spent:
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Pace:
    """Counts tokens and the seconds spent on them, without those of compiling and of pauses.

    Args:
      parameters: N, of the model, whose work on a token is taken to be 6 N floating-point operations,
        as by Kaplan et al. (2020): without attention's, and nothing done again to save memory.
      peak: what all devices can do in a second; None where it is not known.

    Attributes:
      total: steps, tokens and seconds in all.
      compile_seconds: time in first calls with a new shape, which compile.

    >>> pace = Pace()
    >>> pace.go()
    >>> with pace.step({"index": np.arange(3)}):
    ...     pass
    >>> pace.count({"sums": {"count": 12}})
    >>> pace.pause()
    >>> pace.total.steps, pace.total.tokens, sorted(pace.lap())
    (1, 12, ['compile_seconds', 'seconds_per_step', 'shapes', 'tokens_per_second'])
    """

    def __init__(self, parameters: int = 0, peak: float | None = None) -> None:
        self._utilisation_of_rate = 6 * parameters / peak if peak else None
        self.total, self.compile_seconds = _Spent(), 0.0
        self._since_lap = _Spent()
        self._shapes: set[Any] = set()
        self._running_since: float | None = None

    def go(self) -> None:
        """From here, if it is not counting already."""
        if self._running_since is None:
            self._running_since = time.perf_counter()

    @contextlib.contextmanager
    def step(self, batch: Batch) -> Iterator[None]:
        """Around the call of a step, which compiles if the batch has a new shape."""
        began = time.perf_counter()
        yield
        shape = tuple(sorted((name, np.shape(array)) for name, array in batch.items()))
        if shape not in self._shapes:
            self._shapes.add(shape)
            compiling = time.perf_counter() - began
            self.compile_seconds += compiling
            if self._running_since is not None:
                self._running_since += compiling

    def count(self, metrics: Mapping[str, Any]) -> None:
        """A step's tokens, when they are known."""
        for spent in (self.total, self._since_lap):
            spent.steps += 1
            spent.tokens += int(metrics["sums"]["count"])

    def pause(self) -> None:
        """Until the next `go`."""
        if self._running_since is not None:
            seconds = time.perf_counter() - self._running_since
            for spent in (self.total, self._since_lap):
                spent.seconds += seconds
        self._running_since = None

    def lap(self) -> dict[str, float]:
        """The pace since the last lap."""
        lap, self._since_lap = self._since_lap, _Spent()
        rate = lap.tokens / max(lap.seconds, 1e-9)
        return {
            "tokens_per_second": rate,
            "seconds_per_step": lap.seconds / max(lap.steps, 1),
            "compile_seconds": self.compile_seconds,
            "shapes": len(self._shapes),
            **self._utilisation(rate),
        }

    def _utilisation(self, rate: float) -> dict[str, float]:
        if self._utilisation_of_rate is None:
            return {}
        return {"model_flop_utilisation": self._utilisation_of_rate * rate}
