import time
import tracemalloc

import numpy as np
import pytest
import sacrebleu

from attn_jax.data.baseline import NearestNeighbour
from attn_jax.data.corpora import Pairs
from attn_jax.data.phrases import phrases


@pytest.fixture(scope="module")
def corpus():
    return phrases("en-fr", size=30_000, held_out=1_000)


@pytest.fixture(scope="module")
def memory(corpus):
    return NearestNeighbour(corpus.train)


def test_a_training_sentence_is_translated_as_it_was(corpus, memory):
    some = slice(0, 300)
    assert memory.translate(corpus.train.source[some]) == corpus.train.target[some]


def test_it_is_the_largest_cosine_of_tf_idf():
    sources = ["a red hen", "a red fox and a fox", "the hen", "the blue fox", "xyz", "fox"]
    memory = NearestNeighbour(Pairs(sources, [str(i) for i in range(len(sources))]))
    query = "the red fox"

    def grams(text):
        text = f"\x02{text}\x03"
        return [text[i : i + n] for n in (2, 3, 4) for i in range(len(text) - n + 1)]

    vocabulary = sorted({gram for source in sources for gram in grams(source)})
    count = np.array([[grams(text).count(v) for v in vocabulary] for text in [*sources, query]])
    held = (count[:-1] > 0).sum(0)
    vectors = count * (1 + np.log((1 + len(sources)) / (1 + held)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (vectors[:-1] @ vectors[-1]).argmax()
    assert memory.translate([query]) == [str(nearest)]


@pytest.mark.parametrize("pair", ["en-fr", "en-de", "en-zh"])
def test_memory_is_no_translation_of_held_out_phrases(pair):
    corpus = phrases(pair, size=5_000, held_out=300)
    hypotheses = NearestNeighbour(corpus.train).translate(corpus.test.source)
    assert not any(a == b for a, b in zip(hypotheses, corpus.test.target))
    bleu = sacrebleu.corpus_bleu(
        hypotheses, [corpus.test.target], tokenize="zh" if pair == "en-zh" else "13a"
    )
    assert bleu.score < 60


def test_a_thousand_queries_take_seconds_and_bounded_memory(corpus, memory):
    start = time.process_time()
    first = memory.translate(corpus.test.source)
    assert time.process_time() - start < 30  # 2 s on an idle core
    tracemalloc.start()
    again = memory.translate(corpus.test.source[:100])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert again == first[:100]
    assert peak < 4 * 2**20


def test_odd_queries_still_have_one_answer_each():
    memory = NearestNeighbour(Pairs(["", "a cat", "a cat", "一只猫"], ["0", "1", "2", "3"]))
    assert memory.translate(["", "a cat", "QQQ", "猫", "\x02\x03"]) == ["0", "1", "0", "3", "0"]
    assert memory.translate([]) == []


def test_nothing_to_remember_is_refused():
    with pytest.raises(ValueError, match="at least one training pair"):
        NearestNeighbour(Pairs([], []))
