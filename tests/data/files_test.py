import os

import pytest

from attn_jax.data.files import write_atomically


@pytest.mark.parametrize("data", ["naïve\r\n一\u2028", b"\x00\xff", "", b""])
def test_what_is_written_is_read_back(tmp_path, data):
    path = write_atomically(tmp_path / "a" / "b.txt", data)
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert os.listdir(path.parent) == ["b.txt"]


def test_a_failure_at_any_point_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write_atomically(tmp_path / "file", "old")

    def fail(*_):
        raise OSError("disk full")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="disk full"):
                write_atomically(path, "new")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_mode_is_that_of_any_new_file_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "plain").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", "y")
    assert (tmp_path / "link").is_symlink()
    target = tmp_path / "target"
    assert target.read_text() == "y"
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_pipe_is_written_to_and_not_replaced_and_a_directory_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)
    write_atomically(tmp_path / "pipe", "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        write_atomically(tmp_path, "new")
    assert os.listdir(tmp_path) == ["pipe"]
