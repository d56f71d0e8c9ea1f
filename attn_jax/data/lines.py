"""Lines of text, strictly: UTF-8, ended by `\\n` or `\\r\\n` and by nothing else."""

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


def read_lines(source: str | os.PathLike | IO[Any]) -> Iterator[str]:
    """Reads lines one at a time, as they come, without their ends; blank lines are kept.

    Only a line feed ends a line, alone or after a carriage return: not U+2028, nor the other
    characters that `str.splitlines` stops at. The last line may lack its end. A byte order mark
    before the first line is skipped.

    Args:
      source: a file, unpacked on the fly if its name ends in `.gz`; or an open stream, such as
        `sys.stdin`, which is left open.

    Raises:
      FileNotFoundError: there is no such file; raised at once, not at the first line.
      ValueError: a line is not UTF-8, or a `.gz` file is damaged; the message names the file and
        the line.

    >>> import io
    >>> list(read_lines(io.BytesIO("a\\r\\n\\nb\\u2028c".encode())))
    ['a', '', 'b\\u2028c']
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.is_dir() or not path.exists():  # A pipe is as good as a file.
            raise FileNotFoundError(f"no file {path}")
        return _lines_of_file(path)
    # Bytes, where they can be had, so that a bad one is met here and its line is known.
    return _lines(getattr(source, "buffer", source), getattr(source, "name", "input"))


def _lines_of_file(path: Path) -> Iterator[str]:
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
        yield from _lines(stream, path)


def _lines(stream: Any, name: object) -> Iterator[str]:
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            text = line if isinstance(line, str) else line.decode("utf-8")
            if number == 1:
                text = text.removeprefix("\ufeff")
            yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {number}: not UTF-8 (byte 0x{error.object[error.start]:02x} after"
            f" {error.start} others); convert the file, for instance with iconv -t UTF-8"
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name}, after line {number}: damaged gzip file ({error})") from error
