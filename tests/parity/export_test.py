"""What experiments.translate exports, `transformers` translates with, to the same tokens."""

import pytest

from attn_jax.data.tokenizer import Tokenizer
from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT
from experiments.translate.workdir import Workdir
from tests.experiments.tiny_translation import (
    SENTENCES,
    arguments,
    leave_drawn,
    run,
    write_corpus,
)
from tests.parity.twin import torch, transformers

MARIAN = "--config.model.norm=post", "--config.model.epsilon=1e-5", "--config.decode.beam=1"


@pytest.mark.slow
def test_an_exported_run_translates_to_the_same_tokens(tmp_path):
    corpus, workdir = write_corpus(tmp_path), tmp_path / "run"
    leave_drawn(corpus, workdir, *MARIAN)
    said = run(corpus, workdir, *MARIAN, "--mode=export", f"--output={tmp_path / 'marian'}")
    assert said.code == 0, said.err
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "marian").eval()
    tokenizer = Tokenizer.load(tmp_path / "marian" / "tokenizer.model")
    config = parse(EXPERIMENT, arguments(corpus, workdir, *MARIAN)).config
    system, state = Workdir(workdir).trained(config)
    lines = [source for source, _ in SENTENCES]
    found = []
    for line, ours in zip(lines, system.translate(state.averaged, lines, None), strict=True):
        source = torch.tensor([[*tokenizer.encode(line), tokenizer.eos]])
        most = config.decode.length.limits(source.numpy()).item()
        tokens = theirs.generate(source, num_beams=1, do_sample=False, max_new_tokens=most)
        assert [*ours.tokens, tokenizer.eos] == tokens[0, 1:].tolist()
        found.append(ours.tokens)
    assert len(set(map(tuple, found))) > 1
