"""What a run measures: metrics.jsonl, timing.jsonl and TensorBoard event files."""

import contextlib
import functools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attn_jax.data.files import write_atomically
from attn_jax.train.step import means

_LAST = frozenset({"learning_rate", "loss_scale"})  # of several steps' numbers the last is told


class Meter:
    """Sums of several steps, to be logged as one line.

    Its contents are plain numbers and go into checkpoints, so that a run that was interrupted
    between two lines writes the same next line.

    >>> meter = Meter()
    >>> meter.add({"sums": {"loss": 3.0, "count": 2}, "gradient_norm": 1.0, "applied": True})
    >>> meter.add({"sums": {"loss": 5.0, "count": 2}, "gradient_norm": 3.0, "applied": True})
    >>> meter.take()
    {'loss': 2.0, 'gradient_norm': 2.0, 'tokens': 4}
    >>> meter.contents
    {}
    """

    def __init__(self, contents: Mapping[str, Any] | None = None):
        self.contents: dict[str, Any] = dict(contents or {})

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Adds a step's metrics, already on the host; of a step not applied, only that it was."""
        if not metrics["applied"]:
            self._count("skipped", 1)
            return
        self._count("steps", 1)
        self._count("gradient_norm", float(metrics["gradient_norm"]))
        for name, value in metrics["sums"].items():
            self._count(f"sums.{name}", int(value) if name == "count" else float(value))
        for name in _LAST & metrics.keys():
            self.contents[name] = float(metrics[name])

    def take(self) -> dict[str, float]:
        """The line: means over tokens, mean gradient norm, last rate and scale; then starts anew."""
        contents, self.contents = self.contents, {}
        line: dict[str, float] = {}
        if steps := contents.get("steps"):
            prefix = "sums."
            sums = {k.removeprefix(prefix): x for k, x in contents.items() if k.startswith(prefix)}
            line |= means(sums)
            line["gradient_norm"] = contents["gradient_norm"] / steps
            line |= {name: contents[name] for name in sorted(_LAST & contents.keys())}
            line["tokens"] = sums["count"]
        if "skipped" in contents:
            line["skipped"] = contents["skipped"]
        return line

    def _count(self, name: str, amount: float) -> None:
        self.contents[name] = self.contents.get(name, 0) + amount


class Records:
    """The files of a run, opened to go on after a given step.

    metrics.jsonl holds what is a function of the run alone: one line per logged step and one per
    evaluation, `{"step": …, "split": "train" | "validation", …}`. Lines after the step at which the
    run goes on are cut, so that no step is there twice. timing.jsonl holds what depends on the
    clock, and is only ever added to; half a line that a crash left at its end is cut.

    Args:
      workdir: where they live.
      step: the last step that counts; 0 begins anew.
      evaluated: the last step whose evaluation counts.
    """

    def __init__(self, workdir: Path, *, step: int = 0, evaluated: int = 0):
        kept = {"train": step, "validation": evaluated}
        metrics = workdir / "metrics.jsonl"
        timing = workdir / "timing.jsonl"
        lines = [x for x in whole_lines(metrics) if x["step"] <= kept.get(x["split"], step)]
        write_atomically(metrics, "".join(_json(line) for line in lines))
        write_atomically(timing, "".join(_json(line) for line in whole_lines(timing)))
        self._metrics = metrics.open("a", encoding="utf-8")
        self._timing = timing.open("a", encoding="utf-8")
        self._workdir, self._begun_at = workdir, step

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """One line of metrics.jsonl, and the same numbers to TensorBoard."""
        self._append(self._metrics, {"step": step, "split": split, **values})
        self._draw(step, split, values)

    def time(self, step: int, values: Mapping[str, Any]) -> None:
        """One line of timing.jsonl."""
        self._append(self._timing, {"step": step, **values})
        self._draw(step, "timing", values)

    def close(self) -> None:
        """Writes out what is buffered."""
        for file in (self._metrics, self._timing):
            with _naming(file):
                file.close()
        if "_events" in self.__dict__:
            self._events.close()

    @functools.cached_property
    def _events(self) -> Any:
        from tensorboardX import SummaryWriter  # slow to import, and of no use to a finished run

        purge = self._begun_at + 1 if self._begun_at else None
        return SummaryWriter(str(self._workdir), purge_step=purge)

    def _draw(self, step: int, group: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._events.add_scalar(f"{group}/{name}", value, step)

    @staticmethod
    def _append(file: Any, line: Mapping[str, Any]) -> None:
        with _naming(file):
            file.write(_json(line))
            file.flush()


@contextlib.contextmanager
def _naming(file: Any) -> Iterator[None]:
    """A full disk is an error that does not say where."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, file.name) from error


class NoRecords:
    """Writes nothing: of several hosts one writes for all."""

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Nothing."""

    def time(self, step: int, values: Mapping[str, Any]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def _json(line: Mapping[str, Any]) -> str:
    """JSON has no NaN or infinity; they become null."""
    clean = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in line.items()
    }
    return json.dumps(clean, ensure_ascii=False) + "\n"


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSON lines file, up to a half one that a crash left; none if it is not there."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines
