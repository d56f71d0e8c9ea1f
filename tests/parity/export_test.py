"""What experiments.translate exports `transformers` translates with, and the other way round."""

import json
import shutil

import pytest
import sentencepiece

from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT
from experiments.translate.workdir import Workdir
from tests.experiments.tiny_translation import (
    CONFIGS,
    SENTENCES,
    arguments,
    files,
    leave_drawn,
    refused,
    run,
    say,
    write_corpus,
)
from tests.parity.twin import redraw, torch, transformers

MARIAN = "--config.model.norm=post", "--config.model.epsilon=1e-5", "--config.decode.beam=1"
LINES = [source for source, _ in SENTENCES]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def translated(directory, line, most):
    """Text in, text out, as a user of `transformers` has it."""
    model = transformers.MarianMTModel.from_pretrained(directory).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(directory)
    given = tokenizer(line, return_tensors="pt")
    tokens = model.generate(**given, num_beams=1, do_sample=False, max_new_tokens=most)
    return given["input_ids"][0].tolist(), tokens[0, 1:].tolist(), tokenizer.decode(
        tokens[0], skip_special_tokens=True
    )  # fmt: skip


def test_an_exported_run_translates_to_the_same_tokens_and_text(tmp_path):
    corpus, workdir, exported = write_corpus(tmp_path), tmp_path / "run", tmp_path / "marian"
    leave_drawn(corpus, workdir, *MARIAN)
    said = run(corpus, workdir, *MARIAN, "--mode=export", f"--output={exported}")
    assert said.code == 0, said.err
    config = parse(EXPERIMENT, arguments(corpus, workdir, *MARIAN)).config
    system, state = Workdir(workdir).trained(config)
    found = []
    for line, ours in zip(LINES, system.translate(state.averaged, LINES, None), strict=True):
        source = [*system.tokenizer.encode(line), system.tokenizer.eos]
        limit = config.decode.length.limits(torch.tensor([source]).numpy()).item()
        theirs = translated(exported, line, limit)
        assert (source, [*ours.tokens, system.tokenizer.eos]) == theirs[:2]
        assert ours.text.split() == theirs[2].split()
        found.append(ours.tokens)
    assert len(set(map(tuple, found))) > 1


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A small MarianMT in the form of the published ones: padding begins a target, the end is 0."""
    directory = tmp_path_factory.mktemp("published")
    for side, lines in zip(("source", "target"), zip(*SENTENCES, strict=True), strict=True):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_prefix=str(directory / side), vocab_size=24,
            model_type="unigram", hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        (directory / f"{side}.model").rename(directory / f"{side}.spm")
    pieces = ["</s>", "<unk>"]
    for side in ("source", "target"):
        model = sentencepiece.SentencePieceProcessor(str(directory / f"{side}.spm"))
        pieces += sorted({model.id_to_piece(i) for i in range(3, len(model))} - set(pieces))
    pieces += [">>fra<<", "<pad>"]
    (directory / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    names = {"source_lang": "eng", "target_lang": "fra"}
    (directory / "tokenizer_config.json").write_text(json.dumps(names))
    pad = len(pieces) - 1
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(pieces), d_model=8, encoder_layers=1, decoder_layers=1,
            encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=12,
            decoder_ffn_dim=12, pad_token_id=pad, eos_token_id=0, forced_eos_token_id=0,
            decoder_start_token_id=pad, bos_token_id=0,
        )
    )  # fmt: skip
    redraw(model)
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(directory)
    return directory


def test_a_published_directory_translates_to_the_same_text(published, tmp_path):
    lines = [*LINES, ">>fra<< two red dog", "", "never 😀 seen"]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
    found = said(tmp_path, published, "--mode=translate", f"--input={tmp_path / 'lines'}").out
    found = found.splitlines()
    assert found[lines.index("")] == ""
    for line, ours in zip(lines, found, strict=True):
        if line:
            assert ours.split() == translated(published, line, 20)[2].split()
    assert len(set(found)) > 3


def test_a_published_directory_is_evaluated_trained_further_and_exported_again(published, tmp_path):
    once = said(tmp_path, published, "--mode=evaluate").out
    assert "BLEU" in once
    assert not (tmp_path / "run" / "checkpoints").exists()
    more = "--config.train.steps=4", "--config.optimizer.warmup=1", "--config.batches.tokens=64"
    trained = said(tmp_path, published, *more, "--config.optimizer.learning_rate=0.01")
    assert "step 4" in trained.out + trained.err
    exported = f"--output={tmp_path / 'again'}"
    said(
        tmp_path,
        published,
        *more,
        "--config.optimizer.learning_rate=0.01",
        "--mode=export",
        exported,
    )
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES))
    translate = "--mode=translate", f"--input={tmp_path / 'lines'}"
    ours = said(tmp_path, published, *more, "--config.optimizer.learning_rate=0.01", *translate).out
    for line, text in zip(LINES, ours.splitlines(), strict=True):
        assert text.split() == translated(tmp_path / "again", line, 20)[2].split()


def test_a_published_model_is_evaluated_on_any_text_without_a_corpus(published, tmp_path):
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES))
    asked = [
        f"--config={CONFIGS / 'marian.py'}:aligned", f"--config.model.directory={published}",
        f"--workdir={tmp_path / 'run'}", "--mode=evaluate", f"--input={tmp_path / 'text'}",
        f"--target={tmp_path / 'text'}", f"--output={tmp_path / 'out'}", "--config.decode.beam=1",
    ]  # fmt: skip
    found = say(asked)
    assert found.code == 0, found.err
    assert len((tmp_path / "out/hypotheses.txt").read_text().splitlines()) == len(LINES)


@pytest.mark.parametrize("missing", ["source.spm", "vocab.json", "model.safetensors"])
def test_a_directory_without_a_file_is_refused_by_name(published, tmp_path, missing):
    there = tmp_path / "marian"
    shutil.copytree(published, there)
    (there / missing).unlink()
    refused(say(asked(tmp_path, there, "--mode=evaluate")), missing)


def asked(path, directory, *options):
    corpus = path / "corpus"
    corpus.mkdir(exist_ok=True)
    return [
        f"--config={CONFIGS / 'marian.py'}:aligned", f"--config.model.directory={directory}",
        *files(write_corpus(corpus)), "--config.decode.beam=1", "--config.decode.ratio=0",
        "--config.decode.extra=20", f"--workdir={path / 'run'}", *options,
    ]  # fmt: skip


def said(path, directory, *options):
    found = say(asked(path, directory, *options))
    assert found.code == 0, found.err
    return found
