import hashlib
import os

import pytest

from attn_jax.data.download import cache_directory, download

DATA = b"some text\n"
SHA256 = hashlib.sha256(DATA).hexdigest()
OTHERWISE = "say --config.data.directory=DIR"


def test_a_file_is_fetched_once_and_kept(tmp_path):
    origin = tmp_path / "origin"
    origin.write_bytes(DATA)
    path = download(origin.as_uri(), tmp_path / "a" / "b", SHA256, otherwise=OTHERWISE)
    origin.unlink()
    assert download(origin.as_uri(), path, SHA256, otherwise=OTHERWISE).read_bytes() == DATA


def test_a_damaged_copy_is_fetched_again(tmp_path):
    origin, path = tmp_path / "origin", tmp_path / "copy"
    origin.write_bytes(DATA)
    path.write_bytes(DATA[:-1])
    assert download(origin.as_uri(), path, SHA256, otherwise=OTHERWISE).read_bytes() == DATA


def test_another_file_than_expected_is_refused_and_not_kept(tmp_path):
    origin = tmp_path / "origin"
    origin.write_bytes(b"a page that says: log in first")
    with pytest.raises(ValueError, match=f"(?s){origin.as_uri()}.*{SHA256}.*{OTHERWISE}"):
        download(origin.as_uri(), tmp_path / "cache" / "copy", SHA256, otherwise=OTHERWISE)
    assert os.listdir(tmp_path) == ["origin"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x.gz", "file:///nowhere/x.gz"])
def test_without_a_network_the_url_and_the_other_way_are_named(tmp_path, monkeypatch, url):
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(FileNotFoundError, match=f"(?s)cannot download {url}.*{OTHERWISE}"):
        download(url, tmp_path / "copy", SHA256, otherwise=OTHERWISE)
    assert os.listdir(tmp_path) == []


def test_the_cache_is_where_the_user_keeps_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "attn_jax"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "attn_jax"
