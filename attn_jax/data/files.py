"""Files that are written whole or not at all."""

import os
import uuid
from pathlib import Path


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
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return path
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return path
