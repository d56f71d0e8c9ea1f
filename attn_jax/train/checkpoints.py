"""Checkpoints: whole or not there, written while training goes on, the newest and the best kept."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, LatestN

from attn_jax.train.checksum import checksum, structure
from attn_jax.train.distributed import first_alone
from attn_jax.train.identity import compare
from attn_jax.train.quiet import quiet_orbax
from attn_jax.train.retention import Retention
from attn_jax.train.state import State

Record = dict[str, Any]
"""What JSON can hold and a run needs to go on: data position, counters, config, fingerprints."""


_RARE = frozenset({"scale", "statistics"})


class Unreadable(RuntimeError):
    """A checkpoint, or every one there is, cannot be read or is not what was written."""


class NotSaved(OSError):
    """A checkpoint could not be written; those before it are what they were."""


class Checkpoints:
    """The checkpoints of a run; enter it, so that leaving waits for what is being written.

    Args:
      directory: made, to write to, if it is not there.
      retention: which ones are kept; None, the default, to only read, which disturbs no run that
        is writing at the same time.
      report: told, in a line each, of checkpoints that are passed over; stderr by default.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        retention: Retention | None = None,
        *,
        report: Callable[[str], None] | None = None,
    ):
        self.directory = Path(directory).absolute()
        self.retention = retention
        self.report = report or functools.partial(print, file=sys.stderr, flush=True)
        self._scores: dict[int, float] = {}
        self._whole: int | None = None  # the last step that this object wrote or read
        self._writing: int | None = None
        self._broken: list[int] = []
        self._open = contextlib.ExitStack()
        self._open.enter_context(quiet_orbax())
        if retention is None:
            options = ocp.CheckpointManagerOptions(read_only=True)
        else:
            best = _Best(retention, self._scores)
            options = ocp.CheckpointManagerOptions(
                preservation_policy=AnyPreservationPolicy([LatestN(retention.latest), best]),
                cleanup_tmp_directories=True,
            )
        self._manager = ocp.CheckpointManager(self.directory, options=options)
        self._open.callback(self._close_manager)
        self._open.callback(self.wait)

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits until everything is written."""
        self._open.close()

    def wait(self) -> None:
        """Waits until everything is written.

        Raises:
          NotSaved: the disk is full, or cannot be written to for another reason.
        """
        with self._naming_failures():
            self._manager.wait_until_finished()
        self._writing = None

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

        Raises:
          ValueError: these were opened to be read.
          NotSaved: it, or the one begun before, could not be written.
        """
        if self.retention is None:
            raise ValueError(f"expected a retention to write checkpoints by, in {self.directory}")
        step = int(state.step)
        if step == self._whole:
            return
        self.wait()
        for other in self.steps():
            if other in self._broken or other >= step:
                self._set_aside(other)
        self._scores.update(scores or {})
        content = {
            "record": record,
            "scores": sorted(self._scores.items()),
            "higher_is_better": self.retention.higher_is_better,
            "structure": structure(state),
            "checksum": checksum(state),
        }
        self._writing = step
        with self._naming_failures():
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(_by_name(state)),
                    record=ocp.args.JsonSave(_sealed(content)),
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
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), _by_name(like)
        )
        state = State(**self._read(step, state=ocp.args.StandardRestore(abstract)).state)
        if checksum(state) != envelope["checksum"]:
            raise Unreadable(f"checkpoint {step} is broken: its arrays are not what was written")
        return state, envelope["record"]

    def record(self, step: int) -> Record:
        """The record of a step, without its state.

        Raises:
          Unreadable: it is not there, or broken.
        """
        return self._envelope(step)["record"]

    def newest(
        self, like: State, *, check: Callable[[Record], None] | None = None
    ) -> tuple[State, Record] | None:
        """The newest checkpoint that can be read, as of `restore`; None if there is none at all.

        Raises:
          Mismatch: as of `restore`.
          Unreadable: there are checkpoints, and every one is broken.
        """
        failures: list[str] = []
        for step in self.steps()[::-1]:
            try:
                restored = self.restore(step, like, check=check)
            except Unreadable as error:
                failures.append(str(error))
                self._broken.append(step)
                continue
            for failure in failures:
                self.report(f"{failure}; going on from checkpoint {step}")
            self._whole = step
            return restored
        if failures:
            raise Unreadable(
                f"every checkpoint in {self.directory} is broken: {'; '.join(failures)}; move them "
                "away to begin anew"
            )
        return None

    def best_step(self) -> int | None:
        """The step with the best score of those that there are checkpoints of, or None."""
        return next(iter(self.best_steps(1)), None)

    def best_steps(self, count: int) -> list[int]:
        """Up to `count` steps with the best scores of those that there are checkpoints of, best first.

        Which way scores improve is what the run that wrote them said.
        """
        for step in (steps := self.steps())[::-1]:
            with contextlib.suppress(Unreadable):
                envelope = self._envelope(step)
                scores = {s: x for s, x in envelope["scores"] if s in steps}
                kept = Retention(best=count, higher_is_better=envelope["higher_is_better"])
                return kept.best_of(scores)
        return []

    def _close_manager(self) -> None:
        with self._naming_failures():
            self._manager.close()

    @contextlib.contextmanager
    def _naming_failures(self) -> Iterator[None]:
        """What goes wrong below surfaces as any kind of exception, here or at the next call."""
        try:
            yield
        except Exception as error:
            step, self._whole, self._writing = self._writing, None, None
            self._manager.reload()  # it has forgotten those that this one would have replaced
            raise NotSaved(
                f"checkpoint {step} could not be written to {self.directory} ({_reason(error)}); "
                "those before it are as they were; make room, and run again to go on from there"
            ) from error

    def _envelope(self, step: int) -> dict[str, Any]:
        envelope = self._read(step, record=ocp.args.JsonRestore()).record
        content = envelope.get("content")
        if envelope.get("digest") != _sealed(content)["digest"]:
            raise Unreadable(f"checkpoint {step} is broken: its record is not what was written")
        return content

    def _read(self, step: int, **items: Any) -> Any:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**items))
        except Exception as error:  # a broken file surfaces as any kind of exception
            raise Unreadable(f"checkpoint {step} cannot be read ({_reason(error)})") from error

    def _set_aside(self, step: int) -> None:
        first_alone(lambda: self._move_aside(step))
        self._broken = [broken for broken in self._broken if broken != step]
        self._manager.reload()

    def _move_aside(self, step: int) -> None:
        broken = self.directory / str(step)
        aside = self.directory.with_name(f"{self.directory.name}.broken") / str(step)
        number = 0
        while aside.exists():
            number += 1
            aside = aside.with_name(f"{step}.{number}")
        aside.parent.mkdir(exist_ok=True)
        broken.rename(aside)
        self.report(f"checkpoint {step} was moved to {aside}")


def _by_name(state: State) -> dict[str, Any]:
    """A state's parts; what most runs do without is not there where it is None."""
    fields = (field.name for field in dataclasses.fields(state))
    named = {name: getattr(state, name) for name in fields}
    return {name: part for name, part in named.items() if name not in _RARE or part is not None}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _sealed(content: Any) -> dict[str, Any]:
    """What JSON will give back, and its digest: a changed digit is valid JSON, too."""
    content = json.loads(json.dumps(content))
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {"content": content, "digest": digest}


@dataclasses.dataclass
class _Best:
    """Keeps the best by our own scores: a step may be evaluated after it was saved."""

    retention: Retention
    scores: Mapping[int, float]

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        here = {c.step: self.scores[c.step] for c in checkpoints if c.step in self.scores}
        best = self.retention.best_of(here)
        return [c.step in best for c in checkpoints]
