"""Files fetched once, and checked."""

import hashlib
import os
import urllib.request
from pathlib import Path

from attn_jax.data.files import write_atomically

_TIMEOUT = 30.0  # seconds without an answer


def cache_directory() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/attn_jax`, by default `~/.cache/attn_jax`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attn_jax"


def download(url: str, path: str | os.PathLike, sha256: str, *, otherwise: str) -> Path:
    """Fetches a file into `path`, unless it is there already with the right checksum.

    Args:
      url: where from.
      path: where to; written whole and verified, or not at all.
      sha256: of the whole file, in hexadecimal.
      otherwise: what a user can do who has no network; part of every error message.

    Raises:
      FileNotFoundError: the URL cannot be read.
      ValueError: what it gives is not the file that was meant; nothing is kept.
    """
    path = Path(path)
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
        return path
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            data = answer.read()
    except (OSError, EOFError) as error:
        raise FileNotFoundError(f"cannot download {url} ({error}); {otherwise}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{url} gave another file than expected: SHA-256 {found}, expected {sha256};"
            f" nothing was kept; {otherwise}"
        )
    return write_atomically(path, data)
