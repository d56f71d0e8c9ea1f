import gzip
import io
import itertools
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_jax.data.lines import read_lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
        (b"a\rb\x0bc\x0cd\x1ce\n", ["a\rb\x0bc\x0cd\x1ce"]),
        ("a\u2028b\u2029c\x85d\n".encode(), ["a\u2028b\u2029c\x85d"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
    ],
)
def test_only_a_line_feed_ends_a_line(tmp_path, data, lines):
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(data))
    text = io.TextIOWrapper(io.BytesIO(data), encoding="latin-1")  # as sys.stdin: bytes are inside
    for source in (tmp_path / "plain", str(tmp_path / "packed.gz"), io.BytesIO(data), text):
        assert list(read_lines(source)) == lines


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))))
def test_lines_that_were_written_are_read(lines):
    lines = [line.lstrip("\ufeff") for line in lines]
    text = "".join(line + "\n" for line in lines)
    assert list(read_lines(io.BytesIO(text.encode()))) == lines
    assert list(read_lines(io.StringIO(text))) == lines


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_a_line_that_is_not_utf8_is_named_with_its_file(tmp_path, name):
    path = tmp_path / name
    data = "one\ntwo\nfaçade\n".encode("latin-1")
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    lines = read_lines(path)
    assert list(itertools.islice(lines, 2)) == ["one", "two"]
    with pytest.raises(ValueError, match=rf"{path}, line 3: not UTF-8 \(byte 0xe7 after 2 others"):
        next(lines)


def test_a_missing_file_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*/nothing"):
        read_lines(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="no file"):
        read_lines(tmp_path)


def test_a_named_pipe_is_read_as_a_file_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    lines = read_lines(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("a\nb\n",))
    writer.start()
    assert list(lines) == ["a", "b"]
    writer.join()


@pytest.mark.parametrize("damage", [lambda d: d[:-12], lambda d: b"no gzip", lambda d: d[:20] + d])
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    path = tmp_path / "text.gz"
    path.write_bytes(damage(gzip.compress(os.urandom(999).hex().encode())))
    with pytest.raises(ValueError, match=rf"{path}, after line .*damaged gzip"):
        list(read_lines(path))


def test_lines_come_as_they_are_written():
    read, write = os.pipe()
    with open(read, "rb") as reader, open(write, "wb", buffering=0) as writer:
        lines = read_lines(reader)
        writer.write(b"first\n")
        assert next(lines) == "first"
        writer.write(b"second\n")
        assert next(lines) == "second"
