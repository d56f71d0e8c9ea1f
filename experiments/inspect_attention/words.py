"""Text to the tokens of a published model."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Read(NamedTuple):
    """A text as a model reads it.

    Args:
      title: the text.
      ids: what the model is given.
      tokens: what each of them is called.
    """

    title: str
    ids: Sequence[int]
    tokens: Sequence[str]


def read(directory: Path, text: str) -> Read:
    """Tokenises a text as `tokenizer.json` of a model's directory says.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the tokenizers package is missing, or cannot read the file.
    """
    file = directory / "tokenizer.json"
    if not file.is_file():
        raise FileNotFoundError(
            f"no {file} to tokenise text with: give --ids, token numbers with commas between"
        )
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError(
            f"reading {file} takes the tokenizers package: pip install tokenizers, or give --ids"
        ) from None
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing more particular
        raise ValueError(f"{file} is no tokenizer: {error}") from error
    encoding = tokenizer.encode(text)
    bytewise = type(tokenizer.decoder).__name__ == "ByteLevel"
    tokens = [
        _spelt(tokenizer.decode([i], skip_special_tokens=False), token) if bytewise else token
        for i, token in zip(encoding.ids, encoding.tokens)
    ]
    return Read(text, encoding.ids, tokens)


def numbered(ids: str) -> Read:
    """Token numbers with commas between, called by themselves.

    Raises:
      ValueError: they are not.

    >>> numbered("101, 7").tokens
    ['101', '7']
    """
    parts = [part.strip() for part in ids.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(
            f"--ids takes token numbers with commas between, as 101,7592,102; got {ids!r}"
        )
    return Read("tokens " + " ".join(parts), [int(part) for part in parts], parts)


def _spelt(decoded: str, token: str) -> str:
    """A token of bytes as text, with its space before it seen; as it is where it is half a character."""
    return token if "\ufffd" in decoded else decoded.replace(" ", "▁")
