"""What is timed beside `transformers` computes the same."""

import pytest

from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT
from tests.experiments.tiny_translation import arguments, leave_drawn, write_corpus
from tests.parity import twin  # noqa: F401, skips where torch is missing

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["GPT-2", "Longformer-base"])
def test_models_that_are_compared_say_the_same(name):
    from benchmarks import models

    records = models.compare(name, small=True, repeats=1, budget=0.0)
    assert [r["direction"] for r in records] == ["forward", "forward+backward"]
    assert all(r["difference"] < 1e-5 and r["speedup"] > 0 for r in records)
    assert models.table(records, {"device": "some"}).count("\n") == 6


def test_decoding_is_timed_and_told(tmp_path):
    from benchmarks import decoding

    post = "--config.model.norm=post", "--config.model.epsilon=1e-5"
    corpus = write_corpus(tmp_path)
    leave_drawn(corpus, tmp_path / "run", *post)
    config = parse(EXPERIMENT, arguments(corpus, tmp_path / "run", *post)).config
    given = decoding.task(config, tmp_path / "run", 3, ends=False)
    records = decoding.compare(given, 1, 0.0)
    assert [r["sentences"] for r in records] == [3, 3, 3]
    table = decoding.table(records, {"device": "some"})
    assert "sentences/s" in table
    assert "to the letter" not in table
