"""The translation experiment through its command line, in this process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from attn_jax.data.tokenizer import Tokenizer
from attn_jax.diagnostics import plots
from attn_jax.train import enable_compilation_cache
from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT
from experiments.translate.system import System
from experiments.translate.training import batches_of
from tests.experiments.tiny_translation import arguments, refused, run, write_corpus


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """Runs of the same shapes share their compiled programs."""
    before = jax.config.jax_compilation_cache_dir
    enable_compilation_cache(tmp_path_factory.mktemp("compiled"))
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("run")
    return workdir, run(corpus, workdir)


def test_training_says_what_it_does_and_leaves_everything_in_the_workdir(trained):
    workdir, said = trained
    assert said.code == 0
    assert "validation at step 4" in said.err
    for wanted in ("BLEU", "chrF", "nrefs:1|case:mixed", "sentences/s", "target tokens/s"):
        assert wanted in said.out
    assert said.out.count("translation  ") == 5
    names = {path.name for path in workdir.iterdir()}
    assert names >= {
        *("config.json", "tokenizer.model", "checkpoints", "metrics.jsonl", "timing.jsonl"),
        *("hypotheses.txt", "references.txt", "result.json", "attention"),
    }
    assert any(name.startswith("events.out.tfevents") for name in names)
    for number in (1, 2, 3):
        picture = workdir / "attention" / f"cross-attention-{number}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert str(picture) in said.out
    training = json.loads((workdir / "result.json").read_text())["training"]
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    assert training["tokens"] == sum(json.loads(line).get("tokens", 0) for line in lines) > 0
    assert training["seconds"] * training["tokens_per_second"] == pytest.approx(training["tokens"])
    config = json.loads((workdir / "config.json").read_text())
    assert (config["data"]["corpus"], config["train"]["steps"]) == ("Aligned", 4)


def test_sacrebleu_by_hand_on_the_written_file_gives_the_same_numbers(trained, corpus):
    workdir, said = trained
    result = json.loads((workdir / "result.json").read_text())["scores"]["Transformer"]
    command = [
        sys.executable,
        "-m",
        "sacrebleu",
        corpus / "test.fr",
        "-i",
        workdir / "hypotheses.txt",
    ]
    for metric in ("bleu", "chrf"):
        by_hand = subprocess.run(
            [*command, "-m", metric, "-w", "4"], capture_output=True, check=True, text=True
        )
        found = json.loads(by_hand.stdout)
        assert found["score"] == pytest.approx(result[metric], abs=1e-4)
        assert found["signature"] == result[f"{metric}_signature"]
        assert result[f"{metric}_signature"] in said.out


def test_a_finished_run_run_again_evaluates_and_exits_well(trained, corpus):
    workdir, _ = trained
    before = {name: (workdir / name).read_bytes() for name in ("hypotheses.txt", "metrics.jsonl")}
    said = run(corpus, workdir)
    assert said.code == 0
    assert "finished at step 4 of 4" in said.err
    assert "BLEU" in said.out
    assert {name: (workdir / name).read_bytes() for name in before} == before
    evaluated = run(corpus, workdir, "--mode=evaluate", "--config.train.steps=9")
    assert evaluated.code == 0
    assert (workdir / "hypotheses.txt").read_bytes() == before["hypotheses.txt"]


def test_every_line_is_answered_in_order_and_blank_ones_stay_blank(trained, corpus, tmp_path):
    workdir, _ = trained
    one = run(corpus, workdir, "--mode=translate", f"--input={corpus}/test.en").out
    assert one == (workdir / "hypotheses.txt").read_text()
    odd = b"two red cat\r\n\n   \ntwo\tred cat\n\xf0\x9f\x98\x80 \xd7\xa9\xd7\x9c\n" + b"x y " * 50
    (tmp_path / "odd").write_bytes(odd)
    said = run(
        corpus, workdir, "--mode=translate", f"--input={tmp_path}/odd", f"--output={tmp_path}/out"
    )
    assert (said.code, said.out) == (0, "")
    lines = (tmp_path / "out").read_text().split("\n")
    assert len(lines) == 6 + 1
    assert lines[1] == lines[2] == lines[6] == ""
    assert "line 6 has" in said.err
    assert "only the first 7 were translated" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["odd", "out"]


def test_standard_input_is_read_where_no_file_is_given(trained, corpus, monkeypatch, tmp_path):
    workdir, _ = trained
    (tmp_path / "typed").write_text("one red cat\n\ntwo tan dog")
    with open(tmp_path / "typed", encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        said = run(corpus, workdir, "--mode=translate")
    assert said.out.count("\n") == 3
    assert said.out.split("\n")[1] == ""


def test_pictures_are_of_the_chosen_words_and_of_real_tokens_only(trained, corpus, monkeypatch):
    workdir, _ = trained
    drawn = []
    draw = plots.heat_maps

    def note(weights, queries, keys, title):
        drawn.append((weights, queries, keys, title))
        return draw(weights, queries, keys, title)

    monkeypatch.setattr(plots, "heat_maps", note)
    run(corpus, workdir, "--mode=evaluate")
    samples = json.loads((workdir / "result.json").read_text())["samples"]
    assert len(drawn) == 3
    for (weights, queries, keys, title), sample in zip(drawn, samples):
        assert title == sample["translation"]
        assert weights.shape == (2, len(queries), len(keys))
        assert weights.sum(-1) == pytest.approx(1, abs=1e-5)
        assert queries[-1] == keys[-1] == "</s>"
        assert "".join(keys[:-1]).replace("▁", " ").strip() == sample["source"]


def test_a_workdir_made_by_another_config_is_refused_with_the_difference(trained, corpus):
    workdir, _ = trained
    kept = (workdir / "config.json").read_bytes()
    refused(run(corpus, workdir, "--config.train.steps=-1"), "steps of at least 1, got -1")
    said = run(corpus, workdir, "--config.model.width=16", "--config.seed=1")
    refused(said, "model.width: 8 -> 16", "seed: 0 -> 1", "choose another workdir")
    said = run(corpus, workdir, "--mode=translate", "--config.model.width=16")
    refused(said, "model.width: 8 -> 16")
    assert (workdir / "config.json").read_bytes() == kept


def test_a_checkpoint_without_its_tokenizer_is_refused(trained, corpus):
    workdir, _ = trained
    hidden = (workdir / "tokenizer.model").rename(workdir / "elsewhere")
    try:
        for mode in ("train", "evaluate"):
            refused(run(corpus, workdir, f"--mode={mode}"), "no tokenizer at", str(hidden.parent))
    finally:
        hidden.rename(workdir / "tokenizer.model")


def test_a_checkpoint_with_a_tokenizer_of_the_same_size_that_is_not_its_own_is_refused(
    trained, corpus
):
    workdir, _ = trained
    path = workdir / "tokenizer.model"
    own = path.read_bytes()
    words = Tokenizer.load(path)
    swapped = (
        own.replace("▁gat".encode(), "▁xxx".encode())
        .replace("▁can".encode(), "▁gat".encode())
        .replace("▁xxx".encode(), "▁can".encode())
    )
    path.write_bytes(swapped)
    try:
        assert len(Tokenizer.load(path)) == len(words)
        assert Tokenizer.load(path).encode("gat") != words.encode("gat")
        for mode in ("train", "translate"):
            refused(run(corpus, workdir, f"--mode={mode}"), "another", "tokenizer: ")
    finally:
        path.write_bytes(own)


@pytest.mark.parametrize(
    ("file", "content", "parts"),
    [
        ("train.fr", b"un\n", ("train.en has 8 lines", "train.fr has 1")),
        ("train.fr", b"un\n" * 3 + b"\xff\n" + b"un\n" * 4, ("train.fr", "4", "UTF-8")),
        ("train.fr", None, ("no file", "train.fr")),
        ("both", b"", ("empty",)),
    ],
)
def test_text_that_cannot_be_used_is_refused_before_anything_is_written(
    corpus, tmp_path, file, content, parts
):
    broken = tmp_path / "corpus"
    broken.mkdir()
    for path in corpus.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    for name in ("train.en", "train.fr") if file == "both" else (file,):
        (broken / name).unlink()
        if content is not None:
            (broken / name).write_bytes(content)
    refused(run(broken, tmp_path / "run"), *parts)
    assert not (tmp_path / "run").exists()


def test_what_was_never_trained_cannot_translate(corpus, tmp_path):
    workdir = tmp_path / "run"
    refused(run(corpus, workdir, "--mode=translate"), "nothing has been trained in", "train first")
    refused(run(corpus, workdir, "--mode=evaluate"), "nothing has been trained in", "train first")
    refused(run(corpus, workdir, "--mode=translate", "--input=gone.txt"), "gone.txt")
    assert not workdir.exists()


def test_pairs_that_are_too_long_are_left_out_of_training_and_counted(corpus, tmp_path, capsys):
    longer = tmp_path / "corpus"
    longer.mkdir()
    for path in corpus.iterdir():
        text = path.read_text() + ("cat " * 40 + "\n") * path.name.startswith("train")
        (longer / path.name).write_text(text)
    config = parse(EXPERIMENT, arguments(longer, tmp_path)).config
    data = config.data.load()
    tokenizer = Tokenizer.train([*data.train.source, *data.train.target], 300)
    batches = batches_of(data, System(config, tokenizer))
    assert batches.dropped == 1
    assert "1 of 9 pairs have a side of more than 8 tokens" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("--config.modle.width=3", "did you mean --config.model.width?"),
        ("--config.model.width=wide", "--config.model.width takes an integer, such as 128"),
    ],
)
def test_a_misspelt_override_ends_the_process_with_one_line_and_code_2(override, message, tmp_path):
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        "-m",
        "experiments.translate",
        "--config=configs/translate/quickstart.py",
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    ended = subprocess.run(
        [*command, override], cwd=root, env=environment, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert message in ended.stderr


@pytest.mark.slow
def test_a_packed_run_goes_on_exactly_where_it_was_cut(corpus, tmp_path):
    packed = "--config.batches.packed=True", "--config.batches.longest=24"
    for path, steps in (("whole", (4,)), ("cut", (3, 4))):
        for count in steps:
            said = run(corpus, tmp_path / path, *packed, f"--config.train.steps={count}")
            assert said.code == 0, said.err
    judged = []
    for path in ("whole", "cut"):
        lines = (tmp_path / path / "metrics.jsonl").read_text().splitlines()
        found = map(json.loads, lines)
        judged.append([x for x in found if (x["step"], x["split"]) == (4, "validation")])
    assert judged[0] == judged[1] != []
