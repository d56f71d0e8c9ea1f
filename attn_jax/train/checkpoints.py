"""Checkpoints: whole or not there, written while training goes on, the newest and the best kept."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, LatestN

from attn_jax.train.checksum import checksum, structure
from attn_jax.train.identity import compare
from attn_jax.train.state import State

Record = dict[str, Any]
"""What JSON can hold and a run needs to go on: data position, counters, config, fingerprints."""

_ENVELOPE = {"record", "scores", "structure", "checksum"}


class Unreadable(RuntimeError):
    """A checkpoint, or every one there is, cannot be read or is not what was written."""


@dataclasses.dataclass(frozen=True)
class Retention:
    """Which checkpoints are kept: the newest, and those with the best scores.

    Attributes:
      latest: how many of the newest; two, so that one is there if the other is broken.
      best: how many of the best by score.
      higher_is_better: which way scores improve.
    """

    latest: int = 2
    best: int = 1
    higher_is_better: bool = True

    def __post_init__(self):
        if self.latest < 1 or self.best < 0:
            raise ValueError(
                f"expected latest >= 1 and best >= 0, got {self.latest} and {self.best}"
            )

    def best_of(self, scores: Mapping[int, float]) -> list[int]:
        """The steps with the best scores, best first; of equal ones the earlier.

        >>> Retention(best=2).best_of({10: 3.0, 20: 9.0, 30: 5.0, 40: 4.0})
        [20, 30]
        """
        sign = -1 if self.higher_is_better else 1
        return sorted(scores, key=lambda step: (sign * scores[step], step))[: self.best]


class Checkpoints:
    """The checkpoints of a run; enter it, so that leaving waits for what is being written.

    Args:
      directory: made if it is not there.
      retention: which ones are kept.
      report: told of checkpoints that cannot be read; a log by default.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        retention: Retention | None = None,
        *,
        report: Callable[[str], None] | None = None,
    ):
        self.directory = Path(directory).absolute()
        self.retention = Retention() if retention is None else retention
        self._report = report or logging.getLogger(__name__).warning
        self._scores: dict[int, float] = {}
        self._whole: int | None = None  # the last step that this object wrote or read
        self._broken: list[int] = []
        self._open = contextlib.ExitStack()
        self._open.enter_context(_quiet_orbax())
        policy = AnyPreservationPolicy([LatestN(self.retention.latest), _Best(self)])
        self._manager = ocp.CheckpointManager(
            self.directory,
            options=ocp.CheckpointManagerOptions(
                preservation_policy=policy, cleanup_tmp_directories=True
            ),
        )
        self._open.callback(self._manager.close)
        self._open.callback(self.wait)

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits until everything is written."""
        self._open.close()

    def wait(self) -> None:
        """Waits until everything is written."""
        self._manager.wait_until_finished()

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, in order."""
        return sorted(self._manager.all_steps())

    def save(
        self, state: State, record: Record, *, scores: Mapping[int, float] | None = None
    ) -> None:
        """Begins to write a checkpoint of this state; returns before it is on the disk.

        A checkpoint of the same step that this object wrote or read last stays as it is. Broken
        ones, and others of this or a later step, are moved aside.

        Args:
          state: what to save; it may be donated as soon as this returns.
          record: what JSON can hold.
          scores: of the steps evaluated so far; they decide which checkpoints stay.
        """
        step = int(state.step)
        if step == self._whole:
            return
        self.wait()
        for other in self.steps():
            if other in self._broken or other >= step:
                self._set_aside(other)
        self._scores = dict(scores or {})
        envelope = {
            "record": record,
            "scores": sorted(self._scores.items()),
            "structure": structure(state),
            "checksum": checksum(state),
        }
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), record=ocp.args.JsonSave(envelope)
            ),
            force=True,
        )
        self._whole = step

    def restore(
        self, step: int, like: State, *, check: Callable[[Record], None] | None = None
    ) -> tuple[State, Record]:
        """The state and record of a step.

        Args:
          step: one of `steps()`.
          like: a state of the same structure; its arrays say the shardings of the result.
          check: sees the record before the state is read; what it raises is passed on.

        Raises:
          Mismatch: the checkpoint's arrays are not those of `like`.
          Unreadable: it is not there, or broken.
        """
        envelope = self._envelope(step)
        if check is not None:
            check(envelope["record"])
        compare(envelope["structure"], structure(like), what="model or optimizer")
        abstract = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), like
        )
        state = self._read(step, state=ocp.args.StandardRestore(abstract)).state
        if checksum(state) != envelope["checksum"]:
            raise Unreadable(f"checkpoint {step} is broken: its arrays are not what was written")
        return state, envelope["record"]

    def newest(
        self, like: State, *, check: Callable[[Record], None] | None = None
    ) -> tuple[State, Record] | None:
        """The newest checkpoint that can be read, as of `restore`; None if there is none at all.

        Raises:
          Mismatch: as of `restore`.
          Unreadable: there are checkpoints, and every one is broken.
        """
        for step in (steps := self.steps())[::-1]:
            try:
                restored = self.restore(step, like, check=check)
            except Unreadable as error:
                self._report(f"{error}; trying the one before")
                self._broken.append(step)
                continue
            self._whole = step
            return restored
        if steps:
            raise Unreadable(
                f"expected a whole checkpoint among {steps} in {self.directory}, but every one is "
                "broken; move them away to begin anew"
            )
        return None

    def best_step(self) -> int | None:
        """The step with the best score of those that there are checkpoints of, or None."""
        for step in (steps := self.steps())[::-1]:
            with contextlib.suppress(Unreadable):
                scores = {s: x for s, x in self._envelope(step)["scores"] if s in steps}
                return next(iter(self.retention.best_of(scores)), None)
        return None

    def _envelope(self, step: int) -> dict[str, Any]:
        envelope = self._read(step, record=ocp.args.JsonRestore()).record
        if not isinstance(envelope, dict) or not envelope.keys() >= _ENVELOPE:
            raise Unreadable(f"checkpoint {step} was not written by this project")
        return envelope

    def _read(self, step: int, **items: Any) -> Any:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**items))
        except Exception as error:  # a broken file surfaces as any kind of exception
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise Unreadable(f"checkpoint {step} cannot be read ({reason})") from error

    def _set_aside(self, step: int) -> None:
        broken = self.directory / str(step)
        aside = self.directory.with_name(f"{self.directory.name}.broken") / str(step)
        number = 0
        while aside.exists():
            number += 1
            aside = aside.with_name(f"{step}.{number}")
        aside.parent.mkdir(exist_ok=True)
        broken.rename(aside)
        self._manager.reload()
        self._report(f"checkpoint {step} was moved to {aside}")


@dataclasses.dataclass
class _Best:
    """Keeps the best by our own scores: a step may be evaluated after it was saved."""

    owner: Checkpoints

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        scores = self.owner._scores
        here = {c.step: scores[c.step] for c in checkpoints if c.step in scores}
        best = self.owner.retention.best_of(here)
        return [c.step in best for c in checkpoints]


@contextlib.contextmanager
def _quiet_orbax() -> Iterator[None]:
    """Keeps Orbax's log out of the user's terminal: what matters in it is raised as well."""

    def keep(record: logging.LogRecord) -> bool:
        orbax = f"{os.sep}orbax{os.sep}" in record.pathname
        return not orbax

    logger = logging.getLogger("absl")
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)
