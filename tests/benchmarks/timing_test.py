"""What benchmarks share."""

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks import timing


class Program(NamedTuple):
    name: str
    run: Any


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a program says so."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(timing.time, "sleep", lambda _: None)
    return now


def programs(clock, log):
    def taking(name, seconds):
        def run():
            log.append(name)
            clock[0] += seconds

        return Program(name, run)

    return [taking("fast", 1.0), taking("slow", 3.0)]


def test_programs_take_turns_and_the_first_is_not_counted(clock):
    log = []
    fast, slow = programs(clock, log)
    found = timing.measure([fast, slow], 3)
    assert log == ["fast", "slow"] * 4
    assert (found[fast].tolist(), found[slow].tolist()) == ([1.0] * 3, [3.0] * 3)


@pytest.mark.parametrize(("budget", "turns"), [(0.0, 2), (16.0, 3), (19.9, 3), (1e9, 7)])
def test_no_turn_is_begun_that_would_end_beyond_the_budget_but_two_are_counted(
    clock, budget, turns
):
    both = programs(clock, [])
    assert {len(x) for x in timing.measure(both, 7, budget=budget).values()} == {turns}


def test_an_interval_holds_the_median_and_narrows_with_more_ratios():
    rng = np.random.default_rng(0)
    some, many = (2.0 + 0.1 * rng.normal(size=n) for n in (9, 900))
    (low, high), (lower, upper) = timing.interval(some), timing.interval(many)
    assert low <= np.median(some) <= high
    assert lower <= np.median(many) <= upper
    assert upper - lower < (high - low) / 3


def test_a_result_is_written_with_the_machine_it_is_of(tmp_path, capsys):
    about = timing.machine("no-such-package")
    assert about["no-such-package"] == "not installed"
    table = timing.markdown(["n", "ms"], [["1", "0.5"], ["2", "0.7"]])
    assert table == "| n | ms |\n|---|---|\n| 1 | 0.5 |\n| 2 | 0.7 |\n"
    timing.write(tmp_path / "found", about, [{"n": 1}], table)
    assert (tmp_path / "found.md").read_text() == table
    assert json.loads((tmp_path / "found.json").read_text()) == {
        "machine": about,
        "records": [{"n": 1}],
    }
    assert table in capsys.readouterr().out
