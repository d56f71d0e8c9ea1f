import io
import re

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_jax.data.tokenizer import Tokenizer

TEXTS = ["the cat sat on the mat.", "le chat était assis sur le tapis.", "a  b\tc"] * 5


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, size=300)


AWKWARD = [
    *[
        "",
        " ",
        "  lead and trail  ",
        "a\tb",
        "a\r\nb\u2028c",
        "\x00",
        "e\u0301",
        "👩‍👩‍👧 🇫🇷",
        "\ufeffx",
    ],
    *[
        "שלום, \u202bعالم",
        "猫が座った",
        "▁",
        " ▁ ▁▁x",
        "<s></s><pad><unk>",
        "<0x41>",
        "\ufffd",
        "\U0010ffff",
    ],
]


@pytest.mark.parametrize("text", AWKWARD)
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert min(ids, default=4) > 3


@pytest.mark.parametrize("text", AWKWARD)
def test_characters_give_any_text_back_one_by_one(text):
    tokenizer = Tokenizer.characters(TEXTS)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(tokenizer.encode("le chat\n\n")) == len(" le chat\n\n")
    assert len(tokenizer) == 260 + len(set(" ".join(TEXTS)))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text() | st.text(" ▁a\n<>\u0301"), max_size=4))
def test_any_batch_of_texts_comes_back(tokenizer, texts):
    batch = tokenizer.encode_batch(texts)
    assert batch == [tokenizer.encode(text) for text in texts]
    assert [tokenizer.decode(ids) for ids in batch] == texts


def test_decoding_stops_at_the_end_and_skips_specials(tokenizer):
    ids = tokenizer.encode("the cat")
    padded = np.array([tokenizer.bos, *ids, tokenizer.eos, *ids, tokenizer.pad], np.int32)
    assert tokenizer.decode(padded) == "the cat"
    assert tokenizer.decode([tokenizer.eos]) == tokenizer.decode([]) == ""


def test_half_a_character_becomes_a_replacement_character(tokenizer):
    ids = tokenizer.encode("猫")
    assert tokenizer.decode(ids[:-1]).strip("\ufffd") == ""


def test_pieces_spell_the_text(tokenizer):
    pieces = tokenizer.pieces([*tokenizer.encode("the cat"), tokenizer.eos])
    assert "".join(pieces) == "▁the▁cat</s>"


@pytest.mark.parametrize("ids", [[-1], [300], np.array([10, 10_000])])
def test_an_id_outside_the_vocabulary_is_refused(tokenizer, ids):
    for read in (tokenizer.decode, tokenizer.pieces):
        with pytest.raises(ValueError, match="from 0 to 299"):
            read(ids)


def test_what_is_not_text_is_refused(tokenizer):
    with pytest.raises(ValueError, match="UTF-8"):
        tokenizer.encode("\ud800")
    with pytest.raises(TypeError, match="text 1 to be a str, got bytes"):
        tokenizer.encode_batch(["a", b"b"])


def test_save_and_load_keep_everything(tokenizer, tmp_path):
    path = tokenizer.save(tmp_path / "tokenizer.model")
    loaded = Tokenizer.load(path)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert len(loaded) == len(tokenizer) == 300
    assert loaded.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])


def test_the_same_texts_give_the_same_bytes(tokenizer):
    assert Tokenizer.train(iter(TEXTS), size=300).fingerprint == tokenizer.fingerprint


def test_two_swapped_entries_are_seen(tokenizer, tmp_path):
    path = tokenizer.save(tmp_path / "tokenizer.model")
    model = path.read_bytes()
    entries = [entry.encode() for entry in tokenizer.pieces(range(260, 300))]
    a, b = [entry for entry in entries if len(entry) == 5][:2]
    swapped = re.sub(re.escape(a) + b"|" + re.escape(b), lambda m: b if m[0] == a else a, model)
    path.write_bytes(swapped)
    other = Tokenizer.load(path)
    assert len(other) == len(tokenizer)
    assert other.fingerprint != tokenizer.fingerprint


def test_a_corpus_too_small_for_its_vocabulary_trains_with_what_exists():
    texts = [f"line {n} of ten" for n in range(10)]
    with pytest.warns(UserWarning, match="asked for a vocabulary of 32000 entries; 10 lines"):
        tokenizer = Tokenizer.train(texts, size=32_000)
    assert 260 < len(tokenizer) < 400
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)] == texts


def test_a_vocabulary_without_room_for_characters_is_refused():
    with pytest.raises(ValueError, match=r"vocabulary of 261 entries.*larger size"):
        Tokenizer.train(TEXTS, size=261)


def test_no_text_is_refused():
    with pytest.raises(ValueError, match="every line is blank"):
        Tokenizer.train(["", " "], size=300)


def test_a_file_that_is_missing_or_cut_short_or_foreign_is_refused(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.model"
    with pytest.raises(FileNotFoundError, match="no tokenizer at"):
        Tokenizer.load(path)
    tokenizer.save(path)
    for content in (path.read_bytes()[:-100], b"", b"hello"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"tokenizer\.model"):
            Tokenizer.load(path)
    foreign = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=foreign, vocab_size=26, minloglevel=2
    )
    path.write_bytes(foreign.getvalue())
    with pytest.raises(ValueError, match=r"not made by Tokenizer\.train"):
        Tokenizer.load(path)
