"""What benchmarks share: programs that take turns, what their times say, and the files of a result."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from attn_jax.data.files import write_atomically


class Runnable(Protocol):
    """Something to time."""

    @property
    def run(self) -> Callable[[], object]:
        """Does it all, and waits for the result."""


P = TypeVar("P", bound=Runnable)


def measure(
    programs: Sequence[P], repeats: int, *, budget: float = float("inf"), pause: float = 0.25
) -> dict[P, np.ndarray]:
    """Seconds of each repeat, all programs taking turns; the first turn is not counted.

    Args:
      programs: hashable; what else the machine does falls on each alike.
      repeats: turns that are counted.
      budget: in seconds; no turn is begun that would end beyond it, but two are counted in any case.
      pause: seconds before each run. A program's memory is given back after its result is there:
        gigabytes take 0.1 s, which would be charged to a successor that has to wait for pages.
    """
    seconds: dict[P, list[float]] = {program: [] for program in programs}
    began = time.perf_counter()
    for turn in range(repeats + 1):
        spent = time.perf_counter() - began
        if turn > 2 and spent * (turn + 1) / turn > budget:
            break
        for program in programs:
            time.sleep(pause)
            start = time.perf_counter()
            program.run()
            seconds[program].append(time.perf_counter() - start)
    return {program: np.array(taken[1:]) for program, taken in seconds.items()}


def interval(ratios: np.ndarray, draws: int = 2000) -> tuple[float, float]:
    """A 95 % bootstrap interval of the median."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, (draws, len(ratios))), axis=1)
    low, high = np.quantile(medians, (0.025, 0.975)).tolist()
    return low, high


def versions(*packages: str) -> dict[str, str]:
    """The versions of packages, of those that are not there as well."""
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine(*packages: str) -> dict[str, str]:
    """Hardware and versions."""
    return {
        "device": jax.devices()[0].device_kind,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
        **versions("jax", "jaxlib", *packages),
    }


def said(about: dict[str, str]) -> str:
    """A machine in a line."""
    return ", ".join(f"{name} {value}" for name, value in about.items())


def markdown(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table.

    >>> print(markdown(["n", "ms"], [["1", "0.5"]]))
    | n | ms |
    |---|---|
    | 1 | 0.5 |
    <BLANKLINE>
    """
    rows = [columns, ["---"] * len(columns), *lines]
    bars = ["| " + " | ".join(row) + " |" for row in rows]
    bars[1] = bars[1].replace(" ", "")
    return "\n".join(bars) + "\n"


def write(out: Path, about: dict[str, str], records: list[dict[str, Any]], table: str) -> None:
    """OUT.json and OUT.md of what has been measured so far; prints the table, too."""
    report = json.dumps({"machine": about, "records": records}, indent=1)
    write_atomically(out.with_suffix(".json"), report + "\n")
    write_atomically(out.with_suffix(".md"), table)
    print(table, flush=True)
