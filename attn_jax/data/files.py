"""Files that are written whole or not at all."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


def write_atomically(path: str | os.PathLike, data: str | bytes) -> Path:
    """Writes a file so that any reader, at any moment, finds the old one or the new one, whole.

    The data goes to a temporary file in the same directory, is flushed to the disk, and takes the
    place of `path` in one step. Directories that are missing are made; a symbolic link is followed.
    What is there and is no file, such as a pipe or a device, is written to and never replaced.

    Args:
      path: where to write.
      data: bytes as they are, or text, written as UTF-8 with its line ends untouched.

    Returns:
      The path, as a `Path`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = write_atomically(Path(directory) / "new" / "notes.txt", "naïve\\n")
    ...     path.read_bytes()
    b'na\\xc3\\xafve\\n'
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    path = Path(path)
    if not path.exists():
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
    with writing(path, binary=True) as file:
        file.write(content)
    return path


@contextlib.contextmanager
def writing(path: str | os.PathLike, *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file to write to bit by bit, which takes its place at the end, whole or not at all.

    As :func:`write_atomically` otherwise, but for missing directories, which are refused at once.

    Args:
      path: where to write.
      binary: bytes are written; else text, as UTF-8 with its line ends untouched.

    Raises:
      FileNotFoundError: there is no such directory.
      OSError: the file cannot be written.
      IsADirectoryError: the path is one.
    """
    path = Path(path)
    kind, text = ("b", {}) if binary else ("", {"encoding": "utf-8", "newline": "\n"})
    if path.exists() and not path.is_file():
        with open(path, "w" + kind, **text) as file:  # type: ignore[call-overload]
            yield file
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no directory {target.parent} to write {target.name} to")
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with _opened(temporary, target, "x" + kind, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _opened(temporary: Path, target: Path, mode: str, **text: Any) -> IO[Any]:
    try:
        return open(temporary, mode, **text)
    except OSError as error:  # it is the file that matters to a user, not the temporary one
        raise OSError(error.errno, error.strerror, str(target)) from error
