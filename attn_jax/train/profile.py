"""A trace of a few steps: what each device did when, for TensorBoard and Perfetto."""

import contextlib
from pathlib import Path

import jax

STEPS = 6


class Trace:
    """Traces steps N to N + 5 of a run, or as many of them as there are.

    Args:
      directory: where TensorBoard's profile plugin finds it; a sub-directory for each trace.
      first: N; None for none.
    """

    def __init__(self, directory: Path, first: int | None):
        self._directory, self._first = directory, first
        self._running = False

    def begins_with(self, step: int) -> bool:
        """Whether this step is the first; the device is to be waited for, so that no other is in it."""
        return step == self._first

    def ends_with(self, step: int) -> bool:
        """Whether this step is the last; the device is to be waited for, so that all of it is."""
        return self._running and self._first is not None and step >= self._first + STEPS - 1

    def start(self) -> None:
        """Begins to record."""
        jax.profiler.start_trace(self._directory)
        self._running = True

    def stop(self) -> Path | None:
        """Writes what was recorded; returns where, or None if nothing was."""
        if not self._running:
            return None
        self._running = False
        jax.profiler.stop_trace()
        return self._directory

    def step(self, number: int) -> contextlib.AbstractContextManager:
        """Around a step, so that it is found in the trace by its number."""
        if not self._running:
            return contextlib.nullcontext()
        return jax.profiler.StepTraceAnnotation("train", step_num=number)
