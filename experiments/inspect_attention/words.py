"""Text to the tokens of a published model."""

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.inspect_attention.images import read_object


class Read(NamedTuple):
    """A text as a model reads it.

    Args:
      title: the text.
      ids: what the model is given.
      tokens: what each of them is called.
      special: whether each is no word but added, as separators are.
    """

    title: str
    ids: Sequence[int]
    tokens: Sequence[str]
    special: Sequence[bool]


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
    return Read(text, encoding.ids, tokens, [x == 1 for x in encoding.special_tokens_mask])


def numbered(ids: str, option: str = "ids") -> Read:
    """Token numbers with commas between, called by themselves.

    Raises:
      ValueError: they are not.

    >>> numbered("101, 7").tokens
    ['101', '7']
    """
    parts = [part.strip() for part in ids.split(",")]
    if not all(part.isdecimal() and part.isascii() for part in parts):
        raise ValueError(
            f"--{option} takes token numbers with commas between, as 101,7592,102; got {ids!r}"
        )
    title = "tokens " + " ".join(parts)
    return Read(title, [int(part) for part in parts], parts, [False] * len(parts))


class Marian:
    """The tokens of a MarianMT: `source.spm`, `target.spm` and `vocab.json` of its directory.

    Raises:
      FileNotFoundError: one of the files is missing.
      ValueError: one is not what its name says.
    """

    def __init__(self, directory: Path):
        from sentencepiece import SentencePieceProcessor

        missing = [
            x for x in ("source.spm", "target.spm", "vocab.json") if not (directory / x).is_file()
        ]
        if missing:
            raise FileNotFoundError(
                f"{directory} lacks {', '.join(missing)} to tokenise text with: give --ids, token"
                " numbers with commas between"
            )
        self._ids = dict(read_object(directory / "vocab.json"))
        self._words = {number: word for word, number in self._ids.items()}
        self._sides: dict[str, Any] = {}
        for side in ("source", "target"):
            file = directory / f"{side}.spm"
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    self._sides[side] = SentencePieceProcessor(model_file=str(file))
            except (RuntimeError, OSError) as error:
                raise ValueError(f"{file} is no SentencePiece model") from error

    def encode(self, text: str, side: str = "source") -> list[int]:
        """The tokens of a text, without the one that ends it; `>>xx<<` before it names a language."""
        language, text = re.fullmatch(r"(>>.+?<<)?\s*(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        pieces = [*filter(None, [language]), *self._sides[side].encode(text, out_type=str)]
        return [self._ids.get(piece, self._ids.get("<unk>", 0)) for piece in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """A translation as text."""
        return self._sides["target"].decode(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What tokens are called."""
        return [self._words.get(i, str(i)) for i in ids]


def _spelt(decoded: str, token: str) -> str:
    """A token of bytes as text, with its space before it seen; as it is where it is half a character."""
    return token if "\ufffd" in decoded else decoded.replace(" ", "▁")
