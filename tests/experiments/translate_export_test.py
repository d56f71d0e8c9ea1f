"""A trained model is written in the format of `transformers`, or refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT
from experiments.translate.published import published
from experiments.translate.workdir import Workdir
from tests.experiments.tiny_translation import arguments, leave_drawn, refused, run, write_corpus

MARIAN = "--config.model.norm=post", "--config.model.epsilon=1e-5"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def test_what_is_exported_is_the_model_and_its_tokenizer(corpus, tmp_path):
    pytest.importorskip("safetensors", reason="it reads published models")
    leave_drawn(corpus, tmp_path / "run", *MARIAN)
    exported = tmp_path / "marian"
    said = run(corpus, tmp_path / "run", *MARIAN, "--mode=export", f"--output={exported}")
    assert said.code == 0, said.err
    assert str(exported) in said.out
    config = parse(EXPERIMENT, arguments(corpus, tmp_path / "run", *MARIAN)).config
    system, state = Workdir(tmp_path / "run").trained(config)
    again, tokenizer = published(str(exported))
    for text in ("two red dog", "never 😀 seen", " two"):
        assert tokenizer.encode(text) == system.tokenizer.encode(text)
    source = jnp.array([[*tokenizer.encode("two red dog"), tokenizer.eos, tokenizer.pad]])
    inputs = jnp.array([[tokenizer.bos, *tokenizer.encode("dos can")]])
    ours = system.model(state.averaged)
    np.testing.assert_allclose(again(source, inputs), ours(source, inputs), rtol=1e-4, atol=1e-4)
    assert tokenizer.decode([*tokenizer.encode("two 😀 dog"), tokenizer.eos, 9]) == "two 😀 dog"


def test_what_is_no_marian_is_refused_and_nothing_is_written(corpus, tmp_path):
    pre = "--config.model.norm=pre"
    leave_drawn(corpus, tmp_path / "run", pre)
    there = f"--output={tmp_path / 'none'}"
    said = run(corpus, tmp_path / "run", pre, "--mode=export", there)
    refused(said, "blocks.norm is 'pre'", "blocks.epsilon is 1e-06")
    assert not (tmp_path / "none").exists()
    refused(run(corpus, tmp_path / "run", pre, "--mode=export"), "--output=DIR")
    refused(run(corpus, tmp_path / "run", pre, "--mode=export", there, "--input=x"), "no --input")
