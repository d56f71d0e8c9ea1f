"""What can be done with a trained model, through the command line, in this process."""

import dataclasses
import gzip
import io
import json
import math
import os
import sys
import threading

import jax
import numpy as np
import optax
import pytest

from attn_jax.diagnostics import plots
from attn_jax.train import Checkpoints, Retention, enable_compilation_cache, hold
from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT
from experiments.translate.system import System
from experiments.translate.workdir import Workdir
from tests.experiments.tiny_translation import arguments, refused, run, write_corpus

ODD = [
    "two red cat",
    "",
    "   ",
    "cat",
    "\U0001f600 dog",
    "cafe\u0301 n\u0303",
    "שלום dog مرحبا",
    "two\u00a0red\u2028cat",
    "xyzzy Ω",
    " ".join(["one red cat"] * 170),
    "two tan dog",
]


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    before = jax.config.jax_compilation_cache_dir
    enable_compilation_cache(tmp_path_factory.mktemp("compiled"))
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def workdir(corpus, tmp_path_factory):
    """As a run leaves it whose parameters are still the initial ones."""
    path = tmp_path_factory.mktemp("run")
    config = parse(EXPERIMENT, arguments(corpus, path)).config
    tokenizer = Workdir(path).begin(config, config.data.load())
    state = System(config, tokenizer).initial_state()
    with Checkpoints(path / "checkpoints", Retention()) as checkpoints:
        identity = {"tokenizer": tokenizer.fingerprint}
        checkpoints.save(state, {"identity": identity, "config": Workdir.plain(config)})
    return path


@pytest.fixture(scope="module")
def system(corpus, workdir):
    return Workdir(workdir).trained(parse(EXPERIMENT, arguments(corpus, workdir)).config)


def by_hand(system, state, pairs):
    """Log P(target | source) of each, and how many tokens it has, by the whole model at once."""
    words = system.tokenizer
    ids = [[[*words.encode(x)[:7] * bool(x.strip()), words.eos] for x in pair] for pair in pairs]
    source, labels = (np.array([x + [0] * (8 - len(x)) for x in side]) for side in zip(*ids))
    inputs = np.pad(labels, ((0, 0), (1, 0)), constant_values=words.bos)[:, :-1]
    p = jax.nn.log_softmax(jax.jit(system.model(state.params))(source, inputs))
    chosen = np.take_along_axis(np.asarray(p), labels[..., None], -1)[..., 0]
    real = labels > 0
    return list(zip((chosen * real).sum(-1), real.sum(-1)))


@pytest.mark.slow
def test_every_pair_is_scored_and_the_score_is_that_of_the_model(corpus, workdir, system, tmp_path):
    targets = [*ODD[1:], "un rot gat"]
    for name, lines in (("in", ODD), ("out", targets)):
        (tmp_path / name).write_bytes("\r\n".join(lines).encode())
    both = f"--input={tmp_path}/in", f"--target={tmp_path}/out"
    said = run(corpus, workdir, "--mode=score", *both)
    lines = said.out.split("\n")
    assert (said.code, len(lines)) == (0, len(ODD) + 1)
    assert lines[1] == lines[-1] == ""
    assert "line 10: the last" in said.err
    assert "of the source are beyond" in said.err
    some = (0, 3, 4, 9)
    expectations = by_hand(*system, [(ODD[i], targets[i]) for i in some])
    for number, (expected, count) in zip(some, expectations):
        total, perplexity = map(float, lines[number].split("\t"))
        assert total == pytest.approx(expected, abs=1e-3)
        assert perplexity == pytest.approx(math.exp(-expected / count), rel=1e-3)
    (tmp_path / "tabs").write_text("".join(f"{a}\t{b}\tsomebody\n" for a, b in zip(ODD, targets)))
    other = "--config.decode.tokens=8", f"--output={tmp_path}/scores"
    assert run(corpus, workdir, "--mode=score", f"--input={tmp_path}/tabs", *other).out == ""
    pairs = zip(lines, (tmp_path / "scores").read_text().split("\n"))
    for one, same in pairs:
        assert [float(x) for x in one.split()] == pytest.approx(
            [float(x) for x in same.split()], rel=1e-4
        )


@pytest.mark.slow
def test_pairs_that_are_none_are_refused_with_their_line(corpus, workdir, tmp_path, monkeypatch):
    (tmp_path / "one").write_text("a\tb\n\nc d\n")
    refused(run(corpus, workdir, "--mode=score", f"--input={tmp_path}/one"), "line 3 has no target")
    (tmp_path / "other").write_text("a\nb\n")
    both = f"--input={tmp_path}/one", f"--target={tmp_path}/other"
    refused(run(corpus, workdir, "--mode=score", *both), "other has 2 lines", "one has 3")
    refused(run(corpus, workdir, "--mode=score", "--nbest=2"), "--mode=score takes no --nbest")
    refused(run(corpus, workdir, "--mode=translate", "--nbest=5"), "from 1 to decode.beam, 4")
    refused(run(corpus, workdir, "--mode=evaluate", "--against=gone"), "no file gone")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    for mode in ("score", "attention", "translate"):
        assert run(corpus, workdir, f"--mode={mode}") == (0, "", "")


@pytest.mark.slow
def test_the_best_translations_come_with_their_scores_and_the_first_is_the_translation(
    corpus, workdir, system, tmp_path
):
    (tmp_path / "odd").write_text("\n".join(ODD))
    given = f"--input={tmp_path}/odd"
    best = run(corpus, workdir, "--mode=translate", given)
    assert best.out.count("\n") == len(ODD)
    assert "line 10 has" in best.err
    three = run(corpus, workdir, "--mode=translate", given, "--nbest=3")
    rows = [line.split("\t", 3) for line in three.out.split("\n")[:-1]]
    found = {n: [row for row in rows if row[0] == str(n)] for n in range(1, len(ODD) + 1)}
    assert [found[n][0][3] for n in found] == best.out.split("\n")[:-1]
    assert [len(found[n]) for n in found] == [3, 1, 1, *[3] * 8]
    for n in found:
        scores = [float(row[1]) for row in found[n]]
        assert scores == sorted(scores, reverse=True)
    source, translation = ODD[0], system[0].forced(ODD[0], "un rot gat")
    assert [translation.source, translation.tokens] == [
        system[0].tokenizer.encode(x)[:7] for x in (source, "un rot gat")
    ]


@pytest.mark.slow
def test_what_was_trained_is_used_whatever_is_said_of_training_and_whoever_trains_there(
    corpus, workdir, tmp_path
):
    (tmp_path / "in").write_text("two red cat\ndog\n")
    given = "--mode=translate", f"--input={tmp_path}/in"
    plain = run(corpus, workdir, *given)
    other = (
        "--config.optimizer.decay=0.1",
        "--config.optimizer.clip=0",
        "--config.optimizer.warmup=100000",
        "--config.train.ema=0.5",
        "--config.train.precision=float16",
        "--config.train.steps=0",
        "--config.seed=3",
        "--config.model.backend=dense",
    )
    held, done = threading.Event(), threading.Event()

    def train():
        with hold(workdir):
            held.set()
            done.wait()

    trainer = threading.Thread(target=train)
    trainer.start()
    held.wait()
    try:
        assert run(corpus, workdir, *given, *other) == plain
    finally:
        done.set()
        trainer.join()
    refused(run(corpus, workdir, *given, "--config.model.width=16"), "model.width: 8 -> 16")


@pytest.mark.slow
def test_a_line_is_drawn_by_its_words_and_the_seed_alone(corpus, workdir, tmp_path):
    def drawn(lines, *flags):
        (tmp_path / "in").write_text("\n".join(lines))
        given = "--mode=translate", f"--input={tmp_path}/in", "--config.decode.temperature=1.5"
        return run(corpus, workdir, *given, *flags).out.split("\n")[:-1]

    together = drawn(ODD)
    assert [together[i] for i in (0, 8)] == drawn([ODD[0]]) + drawn([ODD[8]])
    assert together == drawn(ODD)
    assert drawn(ODD, "--config.decode.seed=1") != together
    three = [line.split("\t", 3) for line in drawn(ODD[:1], "--nbest=3")]
    assert [row[0] for row in three] == ["1"] * 3
    assert len({row[3] for row in three}) == 3
    assert all(row[1] == row[2] for row in three)
    cold = "--config.decode.temperature=1e-6", "--config.decode.beam=2"
    (tmp_path / "in").write_text("\n".join(ODD))
    given = "--mode=translate", f"--input={tmp_path}/in"
    greedy = run(corpus, workdir, *given, "--config.decode.beam=1").out
    assert drawn(ODD, *cold) == drawn(ODD, "--config.decode.top_k=1") == greedy.split("\n")[:-1]
    warm = "--config.decode.temperature=1.0", "--config.decode.top_p=2"
    refused(run(corpus, workdir, *given, *warm), "0 < top_p <= 1")
    covered = run(corpus, workdir, *given, "--config.decode.coverage_penalty=0.2", "--nbest=1")
    assert (covered.code, covered.out.count("\n")) == (0, len(ODD))


@pytest.mark.slow
def test_lines_typed_at_a_terminal_are_answered_one_by_one(corpus, workdir, monkeypatch):
    ours, theirs = os.openpty()
    os.write(ours, b"two red cat\n\ndog\n\x04")
    with open(theirs, encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        said = run(corpus, workdir, "--mode=translate")
    os.close(ours)
    assert (said.code, said.out.count("\n")) == (0, 3)


@pytest.mark.slow
def test_pictures_of_any_line_show_where_the_decoder_looked_at_its_real_tokens(
    corpus, workdir, tmp_path, monkeypatch
):
    drawn = []
    monkeypatch.setattr(plots, "heat_maps", lambda *a, **k: drawn.append((a, k)))
    monkeypatch.setattr(plots, "save", lambda figure, path: path)
    (tmp_path / "lines").write_text("two red cat\tdos gat rot\n\n\U0001f600 שלום\none tan dog\t\n")
    said = run(
        corpus, workdir, "--mode=attention", f"--input={tmp_path}/lines", f"--output={tmp_path}"
    )
    assert said.out.split() == [f"{tmp_path}/line-{n}.png" for n in (1, 3, 4)]
    titles = [options["title"] for _, options in drawn]
    assert titles[0] == "dos gat rot"
    assert titles[2] == ""
    for [weights], options in drawn:
        assert weights.shape == (2, len(options["queries"]), len(options["keys"]))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        assert options["queries"][-1] == options["keys"][-1] == "</s>"


@pytest.mark.slow
def test_other_text_is_evaluated_beside_other_translations_and_the_workdir_stays_as_it_is(
    corpus, workdir, tmp_path
):
    (tmp_path / "more.en").write_text("two red cat\n\none dog\n")
    (tmp_path / "more.fr.gz").write_bytes(gzip.compress(b"dos gat rot\n\nun can\n"))
    given = f"--input={tmp_path}/more.en", f"--target={tmp_path}/more.fr.gz"
    (tmp_path / "theirs").write_text("dos gat rot\n\nun can un can\n")
    against = f"--against={tmp_path}/theirs"
    said = run(corpus, workdir, "--mode=evaluate", *given, against)
    assert (said.code, said.err) == (0, "")
    assert f"by chance as different from {tmp_path}/theirs" in said.out
    for wanted in ("TER nrefs:1|case:lc|tok:tercom", "BLEU nrefs:1|case:mixed"):
        assert wanted in said.out
    result = json.loads((workdir / "evaluated" / "more.en" / "result.json").read_text())
    assert list(result["scores"]) == ["Transformer", f"{tmp_path}/theirs"]
    assert result["scores"][f"{tmp_path}/theirs"]["chrf"] > 60
    assert (workdir / "evaluated" / "more.en" / "hypotheses.txt").read_text().count("\n") == 3
    assert (
        (workdir / "evaluated" / "more.en" / "bleu-by-length.png")
        .read_bytes()
        .startswith(b"\x89PNG")
    )
    assert not (workdir / "result.json").exists()
    other = f"--against={workdir}/evaluated/more.en"
    refused(run(corpus, workdir, "--mode=evaluate", other), "expected 5 translations", "has 3")
    (tmp_path / "more.en").write_text("two red cat\n\none cat\n")
    (tmp_path / "more.fr.gz").write_bytes(gzip.compress(b"dos gat rot\n\nun gat\n"))
    refused(run(corpus, workdir, "--mode=evaluate", *given, other), "of other text")


@pytest.mark.slow
def test_the_best_checkpoints_can_be_averaged(corpus, tmp_path, capsys):
    config = parse(EXPERIMENT, arguments(corpus, tmp_path)).config
    workdir = Workdir(tmp_path)
    tokenizer = workdir.begin(config, config.data.load())
    first = System(config, tokenizer).initial_state()
    identity = {"tokenizer": tokenizer.fingerprint}
    record = {"identity": identity, "config": Workdir.plain(config)}
    with Checkpoints(tmp_path / "checkpoints", Retention(best=3)) as checkpoints:
        for step, bleu in ((1, 7.0), (2, 9.0), (3, 5.0), (4, 1.0)):
            state = dataclasses.replace(
                first,
                step=first.step + step,
                params=jax.tree.map(lambda x, n=step: x * n, first.params),
            )
            checkpoints.save(state, record, scores={step: bleu})
            checkpoints.wait()

    def found(count):
        config.decode.average = count
        state = workdir.trained(config)[1]
        return int(state.step), float(optax.tree.norm(state.params) / optax.tree.norm(first.params))

    assert found(1) == (2, pytest.approx(2))
    assert found(2) == (2, pytest.approx(1.5))
    assert found(3) == (2, pytest.approx(2))
    assert capsys.readouterr().err == ""
    assert found(5)[0] == 2
    assert "decode.average asks for 5" in capsys.readouterr().err
