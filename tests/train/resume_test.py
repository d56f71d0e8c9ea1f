"""A run that is killed, again and again, ends as if it never was."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

EPOCH = 11
LAST_OF_AN_EPOCH = (3 * EPOCH, 6 * EPOCH, 7 * EPOCH)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """Begins, or goes on with, a run in a process of its own.

    The processes are forked from one that has imported JAX and touched no device, so that a life
    takes no longer than it has to; programs are compiled once, by the first.
    """
    cache = tmp_path_factory.mktemp("cache")
    here = str(Path(__file__).parent)
    sys.path.insert(0, here)
    try:
        import killed

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["killed"])

        def begin(workdir, devices=1, stuck_at=None):
            hears, says = context.Pipe(duplex=False)
            arguments = (str(workdir), str(cache), says, devices, stuck_at)
            process = context.Process(target=killed.run, args=arguments)
            process.start()
            says.close()
            return process, hears

        yield begin
    finally:
        sys.path.remove(here)


def heard(hears):
    """What it says, until it ends or is killed."""
    while True:
        try:
            yield hears.recv()
        except EOFError:
            return


def to_the_end(live, workdir, devices=1):
    """Lets it live; returns its batches."""
    process, hears = live(workdir, devices)
    batches = list(heard(hears))
    process.join()
    assert process.exitcode == 0
    return batches


@pytest.fixture(scope="module")
def whole(live, tmp_path_factory):
    """A run that was never killed, and its batches."""
    workdir = tmp_path_factory.mktemp("whole")
    return workdir, to_the_end(live, workdir)


def being_written(workdir):
    return list((workdir / "checkpoints").glob("*.orbax-checkpoint-tmp*"))


def lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def test_the_run_is_one_worth_killing(whole):
    workdir, batches = whole
    final = np.load(workdir / "final.npz")
    assert str(final["status"]) == "stopped early"
    assert len(batches) == 90
    assert all(any(f".{kind}" in name for name in final.files) for kind in ("mu", "nu", "count"))


def test_killed_twenty_times_it_ends_as_if_it_never_was(live, whole, tmp_path):  # T1, T2, T6
    undisturbed, order = whole
    draw, while_writing, killed_at = random.Random(0), 0, []
    for life, last in enumerate(sorted([*draw.sample(range(4, 88), 17), *LAST_OF_AN_EPOCH])):
        process, hears = live(tmp_path)
        for number, index in heard(hears):
            assert order[number - 1] == (number, index)
            if number >= last:
                break
        if life % 3 == 0:
            deadline = time.monotonic() + 20
            while not being_written(tmp_path) and time.monotonic() < deadline:
                pass
        else:
            time.sleep(0.02 * draw.random())
        process.kill()
        process.join()
        killed_at.append(number)
        while_writing += bool(being_written(tmp_path))
    assert len(killed_at) == 20
    assert set(killed_at) >= set(LAST_OF_AN_EPOCH)
    assert while_writing >= 3
    rest = to_the_end(live, tmp_path)
    assert rest == order[rest[0][0] - 1 :]
    one, other = (np.load(path / "final.npz") for path in (undisturbed, tmp_path))
    assert one.files == other.files
    for name in one.files:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    texts = [(path / "metrics.jsonl").read_bytes() for path in (undisturbed, tmp_path)]
    assert texts[0] == texts[1]


def test_other_numbers_of_devices_go_on_with_the_same_data(live, whole, tmp_path):
    undisturbed, order = whole
    for devices in (2, 4, 1):
        process, hears = live(tmp_path, devices)
        for _, (number, index) in zip(range(7), heard(hears)):
            assert order[number - 1] == (number, index)
        process.kill()
        process.join()
    rest = to_the_end(live, tmp_path, devices=2)
    assert rest == order[rest[0][0] - 1 :]
    one, other = lines(undisturbed), lines(tmp_path)
    assert [(x["step"], x["split"]) for x in one] == [(x["step"], x["split"]) for x in other]
    np.testing.assert_allclose([x["loss"] for x in other], [x["loss"] for x in one], rtol=1e-5)


def test_a_second_signal_ends_it_at_once_and_costs_no_more_than_a_kill(live, whole, tmp_path):
    _, order = whole
    process, hears = live(tmp_path, stuck_at=6)
    assert order[:6] == [said for _, said in zip(range(6), heard(hears))]
    os.kill(process.pid, signal.SIGTERM)
    process.join(0.5)
    assert process.exitcode is None  # it has heard, and waits for the step's end
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode in (-signal.SIGINT, -signal.SIGTERM)  # both, if both came at once
    rest = to_the_end(live, tmp_path)
    assert rest == order[rest[0][0] - 1 :]
    assert (tmp_path / "metrics.jsonl").read_bytes() == (whole[0] / "metrics.jsonl").read_bytes()
