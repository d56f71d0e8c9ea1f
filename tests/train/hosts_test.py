"""Two processes of four simulated devices each, on this machine, as one run."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from attn_jax.train import distributed
from attn_jax.train.checkpoints import Checkpoints
from attn_jax.train.loop import fit
from attn_jax.train.standing import Plan, Run
from attn_jax.train.step import make_evaluate, make_step

SCRIPT = Path(__file__).with_name("hosts.py")
PLAN = Plan(12, log_every=2, evaluate_every=4)


@contextlib.contextmanager
def running(workdir, pause=0.0):
    """Both processes; the first's address is a port that was free a moment ago."""
    workdir.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    with contextlib.ExitStack() as stack:
        processes = []
        for process in ("0", "1"):
            started = subprocess.Popen(
                [sys.executable, SCRIPT, workdir, coordinator, process, str(pause)],
                env=os.environ | {"PYTHONPATH": str(SCRIPT.parents[2])},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(started)
            stack.callback(started.kill)
            processes.append(started)
        yield processes


def ended(processes):
    """What each wrote to stderr, once both have ended as they should."""
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    return errors


def said(workdir, process):
    return json.loads((workdir / f"process-{process}.json").read_text())


def lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("together")
    with running(workdir) as processes:
        return workdir, ended(processes)


@pytest.fixture(scope="module")
def alone(tiny, tmp_path_factory):
    """The same run in this process, on one device."""
    workdir, evaluate = tmp_path_factory.mktemp("alone"), make_evaluate(tiny.loss)
    state, _ = fit(
        tiny.state(ema=True),
        make_step(tiny.spoilt_loss, tiny.optimizer()),
        tiny.batches(rows=8),
        plan=PLAN,
        run=Run(workdir),
        evaluate=lambda state: evaluate(state.params, [tiny.batch_of(range(8))]),
    )
    return workdir, state


@pytest.mark.slow
def test_two_processes_have_one_processs_losses_and_one_of_them_writes(together, alone):
    workdir, errors = together
    ours, theirs = lines(alone[0]), lines(workdir)
    assert [(x["step"], x["split"]) for x in theirs] == [(x["step"], x["split"]) for x in ours]
    for one, two in zip(ours, theirs):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert "step 12/12" in errors[0]
    assert "step" not in errors[1]


@pytest.mark.slow
def test_each_process_reads_its_own_rows(together, tiny):
    parts = [said(together[0], process)["seen"] for process in (0, 1)]
    batches = tiny.batches(rows=8)
    for first, second in zip(*parts, strict=True):
        assert first + second == next(batches)["index"].tolist()
    assert said(together[0], 0)["moments"] == {"kernel": [2, 13]}  # of 8 by 13, over fsdp 4


@pytest.mark.slow
def test_what_two_processes_saved_one_process_on_one_device_reads(together, alone, tiny):
    with Checkpoints(together[0] / "checkpoints") as checkpoints:
        state, _ = checkpoints.newest(tiny.state(ema=True))
    assert int(state.step) == PLAN.steps
    for one, two in zip(jax.tree.leaves(alone[1].params), jax.tree.leaves(state.params)):
        np.testing.assert_allclose(two, one, atol=1e-4)


@pytest.mark.slow
def test_one_is_told_to_stop_both_stop_at_the_same_step_and_go_on_as_if_they_never_had(
    together, tmp_path
):
    with running(tmp_path, pause=0.1) as processes:
        next(line for line in processes[1].stdout if line == "batch 4\n")
        processes[1].send_signal(signal.SIGTERM)
        untold, told = ended(processes)
    (stopped,) = {error.split("saved at step ")[1].split(";")[0] for error in (told, untold)}
    assert "SIGTERM" in told
    assert "another host was told to stop" in untold
    assert 4 < int(stopped) < PLAN.steps
    with running(tmp_path) as processes:
        ended(processes)
    assert said(tmp_path, 0)["from"] == said(tmp_path, 1)["from"] == int(stopped)
    assert lines(tmp_path) == lines(together[0])


def test_alone_there_is_nothing_to_agree_on():
    assert not distributed.several()
    assert distributed.is_first()
    assert distributed.any_of(True)
    assert not distributed.any_of(False)
    with pytest.raises(FileNotFoundError):
        distributed.first_alone(lambda: Path("/not/there").read_text())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"coordinator": "localhost:1"}, "not processes, process; leave all three away"),
        ({"coordinator": "a:1", "processes": 2, "process": 2}, "process from 0 to 1, got 2"),
        ({"coordinator": "a:1", "processes": 0, "process": 0}, "at least 1 process, got 0"),
    ],
)
def test_processes_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        distributed.join(**given)
