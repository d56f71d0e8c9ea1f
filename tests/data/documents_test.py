"""Documents: what is held out is not trained on."""

import gzip

import pytest

from attn_jax.data.documents import (
    Documents,
    hold_out,
    paragraphs,
    python_reference,
    read_documents,
)

TEXT = "one\n\ntwo\n lines\n\n\nthree\n\nfour\n\none\n"


def test_the_reference_of_this_interpreter_is_split_by_topics():
    documents = python_reference()
    assert 440_000 < sum(map(len, documents.train + documents.heldout)) < 600_000
    assert len(documents.heldout) == round(0.1 * len(documents.train + documents.heldout))


@pytest.mark.parametrize("heldout", [0.05, 0.1, 0.4])
def test_no_paragraph_is_in_both_parts(heldout):
    documents = python_reference(heldout)
    known, new = ({x.strip() for text in part for x in paragraphs(text)} for part in
                  (documents.train, documents.heldout))  # fmt: skip
    assert known
    assert new
    assert not known & new


def test_of_a_file_the_last_paragraphs_are_held_out(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.gz").write_bytes(gzip.compress(TEXT.encode()))
    expected = Documents(("two\n lines\n\nthree",), ("four\n\none",))
    assert read_documents(tmp_path / "a.txt", 0.4) == expected
    assert read_documents(tmp_path / "b.gz", 0.4) == expected


def test_of_a_directory_the_last_files_are_held_out(tmp_path):
    for name in ("c", "a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n\nall")
    (tmp_path / "notes.md").write_text("no text")
    assert read_documents(tmp_path) == Documents(("a", "b"), ("c\n\nall",))


def test_what_cannot_be_split_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        read_documents(tmp_path / "none.txt")
    with pytest.raises(FileNotFoundError, match=r"no \.txt file"):
        read_documents(tmp_path)
    (tmp_path / "short.txt").write_text("one paragraph\nonly")
    with pytest.raises(ValueError, match="at least two documents"):
        read_documents(tmp_path / "short.txt")
    with pytest.raises(ValueError, match=r"part to hold out in \(0, 1\)"):
        hold_out(["a", "b"], 1.0)
    with pytest.raises(ValueError, match="the part named train of 0 and 1 documents is empty"):
        hold_out(["same", "same"], 0.1)
