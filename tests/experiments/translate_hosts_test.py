"""The translation experiment on a mesh, and in two processes of four simulated devices each."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from attn_jax.data.splits import Corpus, Pairs
from attn_jax.train import Checkpoints
from experiments.command_line import parse
from experiments.hosts import Hosts
from experiments.translate.__main__ import EXPERIMENT
from experiments.translate.config import Config, Mesh, Model
from experiments.translate.training import batches_of
from tests.experiments.tiny_translation import arguments, refused, run, write_corpus

ROOT = Path(__file__).parents[2]
ONCE = ["--config.train.evaluate_every=4", "--config.decode.beam=1"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def hosts_of(corpus, *flags):
    return parse(EXPERIMENT, arguments(corpus, Path("w"), *flags)).hosts


def test_hosts_are_named_or_left_to_the_scheduler(corpus):
    assert hosts_of(corpus) is None
    assert hosts_of(corpus, "--distributed") == Hosts(None, None, None)
    named = ["--distributed", "--coordinator=a:1", "--processes=2", "--process=0"]
    assert hosts_of(corpus, *named) == Hosts("a:1", 2, 0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--process=1"], "--process is of --distributed, which was not given"),
        (["--distributed", "--process=1"], "but not coordinator, processes"),
        (["--distributed", "--mode=translate"], "--mode=translate runs alone"),
        (["--config.mesh.data=3"], "mesh axes that multiply to the 1 device there"),
        (["--config.mesh.data=-1", "--config.mesh.fsdp=-1"], "at most one mesh axis of -1"),
    ],
)
def test_hosts_and_meshes_that_cannot_be_are_refused_in_a_line(corpus, tmp_path, flags, message):
    refused(run(corpus, tmp_path, *flags), message)
    assert not any(tmp_path.iterdir())


def test_a_model_that_the_mesh_cannot_share_out_is_refused(monkeypatch):
    class Axes:
        shape = {"data": 1, "fsdp": 1, "context": 1, "tensor": 4}  # noqa: RUF012

    monkeypatch.setattr("experiments.translate.config.device_mesh", lambda **sizes: Axes)
    Mesh().layout(Model(heads=8))
    with pytest.raises(ValueError, match=r"divide model.heads: `heads` is 6, .* by tensor 4"):
        Mesh().layout(Model(width=48, heads=6))


def test_hosts_that_cannot_share_rows_are_told_which_field_to_change():
    system = SimpleNamespace(
        config=Config(), layout=SimpleNamespace(share=(0, 12)), tokenizer=SimpleNamespace()
    )
    system.tokenizer.encode_batch = list
    pairs = Pairs(["one"], ["un"])
    with pytest.raises(ValueError, match=r"give --config\.batches\.divisor=24"):
        batches_of(Corpus(pairs, pairs, pairs), system)


def lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_two_hosts_train_translate_and_leave_what_one_device_does(corpus, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    together = arguments(corpus, tmp_path / "two", *ONCE, "--config.mesh.fsdp=2")
    together += ["--config.mesh.tensor=2", "--distributed", "--processes=2"]
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    with contextlib.ExitStack() as stack:
        processes = []
        for process in (0, 1):
            who = [f"--coordinator={coordinator}", f"--process={process}"]
            command = [sys.executable, "-m", "experiments.translate", *together, *who]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            started = subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)
            stack.enter_context(started)
            stack.callback(started.kill)
            processes.append(started)
        (out, err), (other_out, other_err) = (p.communicate(timeout=400) for p in processes)
    assert [process.returncode for process in processes] == [0, 0], err + other_err
    assert "BLEU" in out
    assert "BLEU" not in other_out
    assert "step 4/4" not in other_err

    alone = run(corpus, tmp_path / "one", *ONCE)
    assert alone.code == 0, alone.err
    for one, two in zip(lines(tmp_path / "one"), lines(tmp_path / "two"), strict=True):
        assert one.pop("split") == two.pop("split")
        assert two == pytest.approx(one, rel=1e-5)
    written = [tmp_path / name / "hypotheses.txt" for name in ("one", "two")]
    assert written[0].read_bytes() == written[1].read_bytes()
    scores = [json.loads(p.with_name("result.json").read_text())["scores"] for p in written]
    assert scores[0] == scores[1]
    with Checkpoints(tmp_path / "two" / "checkpoints") as checkpoints:
        assert checkpoints.steps() == [4]

    # One process goes on where two were.
    more = run(corpus, tmp_path / "two", *ONCE, "--config.train.steps=6")
    assert more.code == 0, more.err
    for told in ("changed: mesh.tensor: 2 -> 1", "resumed at step 4 of 6", "step 6/6"):
        assert told in more.err
