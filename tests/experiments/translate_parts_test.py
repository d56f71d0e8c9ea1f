"""The parts of the translation experiment, and its configs."""

import dataclasses
import io
import json
import os
import re
from pathlib import Path

import jax.numpy as jnp
import pytest
from rich.console import Console

from attn_jax.data.files import writing
from attn_jax.data.splits import Corpus, Pairs
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.train import Mismatch
from experiments.translate.config import Batching, Config, Decoding, Model, Optimizer, Training
from experiments.translate.corpora import (
    Aligned,
    Multi30k,
    Phrases,
    TabSeparated,
    Tatoeba,
    TwoFiles,
)
from experiments.translate.models import Recurrent
from experiments.translate.quality import by_length, chances, one_line, quality
from experiments.translate.report import Result, Sample, show
from experiments.translate.system import System
from experiments.translate.workdir import Workdir

NONE = Pairs([], [])
ANY = Corpus(Pairs(["one cat"] * 4, ["un gat"] * 4), NONE, NONE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Decoding(average=0).options, "decode.average of at least 1, got 0"),
        (lambda: Optimizer(schedule="cosin").build(10), "no schedule 'cosin'; there are inverse"),
        (lambda: Model(norm="middle").build(9, 0), 'norm must be "pre" or "post"'),
        (lambda: Model(positions="rope").build(9, 0), "positions must be one of sinusoidal"),
        (lambda: Model(score="dotty").build(9, 0), "no score 'dotty'; there are scaled_dot"),
        (lambda: Model(normalizer="soft").build(9, 0), "no normalizer 'soft'; there are softmax"),
        (lambda: Recurrent(hidden=0).build(9, 0), "model.hidden of at least 1"),
        (lambda: Tatoeba(pair="zh-fr").load(), "en-zh or zh-en, got 'zh-fr'"),
        (lambda: Aligned().load(), "--config.data.train.source=FILE"),
        (lambda: Aligned(TwoFiles("a.en")).load(), "source is a.en, and target is not given"),
        (lambda: Aligned(TwoFiles("", "a.fr")).load(), "target is a.fr, and source is not given"),
        (lambda: TabSeparated().load(), "--config.data.file=FILE"),
        (lambda: TabSeparated("x", pair="en").load(), "pair of languages such as en-fr"),
        (lambda: Multi30k(pair="en-zh").load(), "en-zh"),
        (lambda: Phrases(pair="en-xx").load(), "en-xx"),
        (lambda: Decoding(beam=0).options, "decode.beam of at least 1, got 0"),
        (lambda: Decoding(tokens=0).options, "decode.tokens of at least 1, got 0"),
        (lambda: Decoding(longest=1).options, "decode.longest of at least 2, got 1"),
        (lambda: Decoding(ratio=float("inf")).options, "decode.ratio of at least 0, got inf"),
        (
            lambda: Decoding(length_penalty=float("nan")).options,
            "decode.length_penalty of at least",
        ),
        (lambda: Decoding(temperature=-0.1).options, "decode.temperature of at least 0"),
        (lambda: Decoding(top_k=-1).options, "decode.top_k of at least 0"),
        (lambda: Decoding(top_p=0.9).options, "give decode.temperature=1.0 as well"),
        (lambda: Decoding(beam=2000).options, "decode.beam of at most 1000, got 2000"),
        (lambda: Model(heads=0).build(9, 0), "model.heads of at least 1, got 0"),
        (lambda: Model(width=-8).build(9, 0), "model.width of at least 1, got -8"),
        (lambda: Model(hidden=0).build(9, 0), "model.hidden of at least 1"),
        (lambda: Model(encoder_layers=-1).build(9, 0), "model.encoder_layers of at least 1"),
        (lambda: Model(dropout=1.5).build(9, 0), r"model.dropout in \[0, 1\), got 1.5"),
        (lambda: Optimizer(learning_rate=-1.0).build(10), "learning_rate of at least 0, got -1"),
        (lambda: Optimizer(schedule="linear").build(40), "give --config.optimizer.warmup=4, say"),
        (lambda: Optimizer(learning_rate=float("nan")).build(10), "got nan"),
        (lambda: Training(smoothing=2.0).plan(evaluates=True), "train.smoothing in"),
        (lambda: Training(validation=-1).plan(evaluates=True), "train.validation of at least 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "decode", "message"),
    [
        (
            Model(8, 8, 2, positions="learned", longest=100),
            Decoding(),
            "model.longest=100 positions are learned, and decode.longest=256",
        ),
        (
            Recurrent(attends=False, width=2, hidden=2),
            Decoding(coverage_penalty=0.1),
            "Seq2Seq does not: leave it at 0",
        ),
    ],
)
def test_what_a_model_cannot_do_is_refused_before_it_is_trained(model, decode, message):
    tokenizer = Tokenizer.train(ANY.train.source, 270)
    with pytest.raises(ValueError, match=message):
        System(Config(model=model, decode=decode), tokenizer)


def test_tab_separated_text_can_be_read_either_way(tmp_path):
    lines = "".join(f"e{i}\tc{i}\tsomebody\n" for i in range(40))
    (tmp_path / "pairs.tsv").write_text(lines)
    one = TabSeparated(str(tmp_path / "pairs.tsv"), pair="en-zh").load()
    other = TabSeparated(str(tmp_path / "pairs.tsv"), pair="en-zh", swapped=True).load()
    assert (one.source_language, one.target_language) == ("en", "zh")
    assert (other.source_language, other.target_language) == ("zh", "en")
    assert one.train.source[0].startswith("e")
    assert other.train.source[0].startswith("c")


@pytest.mark.parametrize("name", ["cmn.txt", "eng-cmn.tsv"])
def test_tatoeba_is_read_from_a_directory_either_way(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"no cmn.txt .* --config.data.directory=DIR"):
        Tatoeba(directory=str(tmp_path)).load()
    (tmp_path / name).write_text("".join(f"e{i}\tc{i}\n" for i in range(40)))
    corpora = [Tatoeba(pair, str(tmp_path)).load() for pair in ("en-zh", "zh-en")]
    assert [corpus.target_language for corpus in corpora] == ["zh", "en"]
    assert corpora[0].train.source[0][0] == corpora[1].train.target[0][0] == "e"


def test_fields_that_came_later_are_at_their_defaults_in_older_workdirs(tmp_path):
    older = Workdir.plain(Config())
    del older["model"]["positions"]
    workdir = Workdir(tmp_path)
    workdir.config.write_text(json.dumps(older))
    (workdir.checkpoints / "1").mkdir(parents=True)
    with pytest.raises(Mismatch, match=r"model.positions: 'sinusoidal' -> 'rotary'"):
        workdir.begin(Config(model=Model(positions="rotary")), ANY)
    with pytest.raises(
        FileNotFoundError, match="no tokenizer"
    ):  # the config was not what it refused
        workdir.begin(Config(), ANY)


def test_zero_means_never_none_or_all():
    plan = Training(steps=7, log_every=0, evaluate_every=0).plan(evaluates=True)
    assert (plan.log_every, plan.evaluate_every, plan.save_every, plan.patience) == (7, *[None] * 3)
    assert Decoding(beam=1).options is None
    assert Optimizer(clip=0.0).build(5).init({"w": jnp.ones(2)})
    assert Batching().longest <= Decoding().longest


def test_chinese_is_scored_by_characters_and_the_signature_says_so():
    chinese = quality(["今天天气很好"], ["今天天气不好"], "zh")
    assert "tok:zh" in chinese.bleu_signature
    assert chinese.bleu > quality(["今天天气很好"], ["今天天气不好"], "en").bleu
    french = quality(["le chat noir dort", "oui"], ["le chat noir dort ", "non"], "fr")
    assert "tok:13a" in french.bleu_signature
    assert french.exact == 50


def test_two_systems_are_compared_by_pairs_and_a_difference_that_is_large_is_no_chance():
    references = [f"the {a} saw a {b} in the park" for a in "abcdefgh" for b in "klmnopqr"]
    worse = [
        line.replace("saw a", "saw the") if i % 2 else line for i, line in enumerate(references)
    ]
    far, near = (chances(references, other, references, "en") for other in (worse, references))
    assert max(far.values()) < 0.01
    assert set(near.values()) == {1.0}
    assert quality(worse, references, "en").interval["bleu"] > 0
    lengths = [x.bleu for x in by_length([3, 9] * 32, worse, references, "en")]
    assert lengths[0] == pytest.approx(100)
    assert lengths[1] < 90


def test_groups_of_lengths_with_few_sentences_join_their_neighbours():
    lengths = [2] * 3 + [8] * 25 + [13] * 30 + [40] * 2
    text = [f"{'a b c d ' * 2}{i}" for i in range(60)]
    found = [(x.tokens, x.sentences) for x in by_length(lengths, text, text, "en")]
    assert found == [(206 / 28, 28), (470 / 32, 32)]
    assert len(by_length([3] * 5, text[:5], text[:5], "en")) == 1
    assert by_length([], [], [], "en") == []


def test_a_translation_is_one_line_whatever_the_model_writes():
    odd = "a\nb\r\nc\x0bd\x0ce\x85f\u2028g\u2029h"
    assert one_line(odd) == "a b c d e f g h"
    assert one_line("a\tb  c") == "a\tb  c"


def test_an_output_that_fails_half_way_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail():
        with writing(path) as file:
            file.write("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    with writing(path) as file:
        file.write("new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_output_goes_through_links_and_pipes_and_where_it_cannot_go_is_said_at_once(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with writing(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)
    with writing(tmp_path / "pipe") as file:
        file.write("new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    for nowhere in (tmp_path, tmp_path / "none" / "file", Path("/proc/sys/file")):
        with (
            pytest.raises(OSError, match=re.escape(str(nowhere.parent))) as refused,
            writing(nowhere),
        ):
            raise AssertionError("nothing should have been translated")
        assert ".tmp" not in str(refused.value)


@pytest.mark.parametrize("exact", [True, False])
def test_the_report_shows_text_as_it_is_and_exact_match_where_it_counts(exact):
    found = quality(["a"], ["b"], "en")
    result = Result(
        scores={"Transformer": found, "nearest neighbour": found},
        chances={"runs/[other]": {"bleu": 0.25, "chrf": 0.5, "ter": 1.0}},
        by_length={},
        exact_counts=exact,
        step=1234,
        parameters=1_400_000,
        training={"seconds": 60.0, "tokens": 600.0, "tokens_per_second": 10.0},
        sentences_per_second=200.4,
        compile_seconds=1.0,
        decoding=dataclasses.asdict(Decoding()),
        samples=[Sample("[bold]a[/bold]", "b", "c :smile:" + " long" * 40)],
    )
    console = Console(file=io.StringIO(), width=80, highlight=False)
    show(result, [Path("runs", "a very long name" * 5)], console)
    text = console.file.getvalue()
    assert ("exact match" in text) is exact
    assert "[bold]a[/bold]" in text
    assert "c :smile:" + " long" * 40 in text
    assert "a very long name" * 5 in text
    assert found.bleu_signature in text
    assert "runs/[other]: p of BLEU 0.250, chrF 0.500, TER 1.000" in text
    assert "1,400,000 parameters, step 1,234, beam 4" in text


def test_a_setting_that_was_refused_does_not_bind_the_workdir_and_a_checkpoint_does(tmp_path):
    workdir = Workdir(tmp_path)
    for size in (-1, 260, 262):
        with pytest.raises(ValueError, match=rf"vocabulary of {size} entries.*(each|Increase)"):
            workdir.begin(Config(vocabulary=size), ANY)
    assert len(workdir.begin(Config(vocabulary=272), ANY)) == 272
    assert len(workdir.begin(Config(vocabulary=273), ANY)) == 273
    assert json.loads(workdir.config.read_text())["vocabulary"] == 273
    (workdir.checkpoints / "1").mkdir(parents=True)
    with pytest.raises(Mismatch, match="vocabulary: 273 -> 272"):
        workdir.begin(Config(vocabulary=272), ANY)


@pytest.mark.parametrize("content", ['{"data": {', "[1]", "3"])
def test_a_config_that_is_broken_is_named(tmp_path, content):
    workdir = Workdir(tmp_path)
    workdir.config.write_text(content)
    (workdir.checkpoints / "1").mkdir(parents=True)
    with pytest.raises(ValueError, match="is not what a run writes"):
        workdir.begin(Config(), ANY)


def test_measurements_that_a_crash_cut_short_count_as_far_as_they_go(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 2, "split": "train", "tokens": 60}\n')
    (tmp_path / "timing.jsonl").write_text(
        '{"step": 2, "tokens_per_second": 20.0}\n{"step": 4, "tok'
    )
    assert Workdir(tmp_path).training() == {"seconds": 3.0, "tokens": 60, "tokens_per_second": 20.0}
    assert Workdir(tmp_path / "none").training()["tokens"] == 0


def test_each_process_compiles_for_itself_and_utilisation_is_of_the_whole_run(tmp_path):
    metrics = [{"step": n, "split": "train", "tokens": 60} for n in (2, 4)]
    seconds = [2.0, 3.0, 1.0]  # the third is of a process that went on from step 2
    timing = [
        {"step": step, "tokens_per_second": rate, "compile_seconds": spent}
        | {"model_flop_utilisation": rate / 100}
        for step, rate, spent in zip((2, 4, 4), (20.0, 50.0, 30.0), seconds)
    ]
    for name, lines in (("metrics", metrics), ("timing", timing)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    found = Workdir(tmp_path).training()
    assert found["compile_seconds"] == 4.0
    assert found["tokens_per_second"] == pytest.approx(120 / 5)
    assert found["model_flop_utilisation"] == pytest.approx(0.24)
