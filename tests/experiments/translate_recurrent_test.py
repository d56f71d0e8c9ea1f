"""Bahdanau's model and the fixed vector through the command line: the same experiment, all of it."""

import contextlib
import io
import json

import jax
import pytest

from attn_jax.train import enable_compilation_cache
from experiments.translate.__main__ import main
from tests.experiments.tiny_translation import Said, refused, write_corpus

pytestmark = pytest.mark.slow

CONFIG = """
from experiments.translate.config import Batching, Config, Decoding, Recurrent, Training
from experiments.translate.corpora import Aligned, TwoFiles


def get_config(attends):
    train, test = (TwoFiles(f"HERE/{part}.en", f"HERE/{part}.fr") for part in ("train", "test"))
    return Config(
        data=Aligned(train, test, test),
        vocabulary=300,
        model=Recurrent(attends == "yes", 8, 6, 5),
        batches=Batching(64, 8, 1),
        train=Training(4, log_every=2, evaluate_every=2),
        decode=Decoding(longest=8, tokens=64),
    )
"""


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    before = jax.config.jax_compilation_cache_dir
    enable_compilation_cache(tmp_path_factory.mktemp("compiled"))
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    here = write_corpus(tmp_path_factory.mktemp("corpus"))
    (here / "config.py").write_text(CONFIG.replace("HERE", str(here)))

    def run(attends, workdir, *more):
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = main([f"--config={here}/config.py:{attends}", f"--workdir={workdir}", *more])
        return Said(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory):
    workdirs = {name: tmp_path_factory.mktemp("run") for name in ("yes", "no")}
    said = {name: run(name, workdir) for name, workdir in workdirs.items()}
    assert [one.code for one in said.values()] == [0, 0], said
    return workdirs, said


def test_both_train_and_translate_and_only_one_has_pictures(trained, run, tmp_path):
    workdirs, said = trained
    assert "Bahdanau" in said["yes"].out
    assert "Seq2Seq" in said["no"].out
    assert (workdirs["yes"] / "attention" / "cross-attention-1.png").exists()
    assert not (workdirs["no"] / "attention").exists()
    (tmp_path / "lines").write_text("one red cat\n\ntwo tan dog\n")
    given = f"--input={tmp_path}/lines"
    for name, workdir in workdirs.items():
        assert run(name, workdir, "--mode=translate", given, "--nbest=2").out.count("\n") == 5
    drawn = run("yes", workdirs["yes"], "--mode=attention", given, f"--output={tmp_path}")
    assert drawn.out.split() == [f"{tmp_path}/line-{n}.png" for n in (1, 3)]
    refused(run("no", workdirs["no"], "--mode=attention", given), "Seq2Seq does not attend")
    refused(run("no", workdirs["yes"], "--mode=translate"), "model.attends: True -> False")


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(trained, run, tmp_path):
    workdirs, _ = trained
    assert run("yes", tmp_path, "--config.train.steps=2").code == 0
    assert run("yes", tmp_path).code == 0
    for name in ("metrics.jsonl", "hypotheses.txt"):
        assert (tmp_path / name).read_bytes() == (workdirs["yes"] / name).read_bytes()


def test_one_is_evaluated_beside_the_other(trained, run):
    workdirs, _ = trained
    said = run("yes", workdirs["yes"], "--mode=evaluate", f"--against={workdirs['no']}")
    assert (said.code, said.err) == (0, "")
    assert f"by chance as different from {workdirs['no']}: p of BLEU" in said.out
    result = json.loads((workdirs["yes"] / "result.json").read_text())
    assert list(result["by_length"]) == ["Bahdanau", str(workdirs["no"])]


def test_pairs_are_not_packed_where_states_run_from_one_to_the_next(run, tmp_path):
    said = run("yes", tmp_path / "run", "--config.batches.packed=True")
    refused(said, "only the Transformer", "--config.batches.packed=False")
    assert not (tmp_path / "run").exists()
