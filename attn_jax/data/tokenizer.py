"""Subwords: text to integers and exactly back."""

import hashlib
import io
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from attn_jax.data.files import write_atomically

PAD, BOS, EOS, UNK = range(4)
_SPACE = "▁"  # What sentencepiece writes for a space; a real one in the text goes by its bytes.


class Tokenizer:
    r"""Byte-pair encoding (BPE) that nothing is unknown to and nothing is lost in.

    For every string `x` that UTF-8 can write, `decode(encode(x)) == x`: tabs, runs of spaces, line
    ends, emoji, combining marks, and characters never seen in training, which are spelt in bytes.
    No normalisation is applied. Words are marked at their beginning, so that the first word of a
    sentence and the same word later on share an entry.

    Ids 0 to 3 are padding, begin, end and unknown (`PAD`, `BOS`, `EOS`, `UNK`); no text encodes
    to them. The next 256 are the bytes.

    References: Sennrich et al. (2016), https://arxiv.org/abs/1508.07909;
      Kudo and Richardson (2018), https://arxiv.org/abs/1808.06226.

    >>> tokenizer = Tokenizer.train(["low lower lowest", "low new newer"] * 9, size=275)
    >>> ids = tokenizer.encode("lower 😀")
    >>> tokenizer.pieces(ids)
    ['▁low', 'er', '▁', '<0xF0>', '<0x9F>', '<0x98>', '<0x80>']
    >>> tokenizer.decode([*ids, tokenizer.eos, 270])
    'lower 😀'
    """

    pad, bos, eos, unk = PAD, BOS, EOS, UNK

    def __init__(self, model: bytes):
        """Makes a tokenizer of what `train` serialised; use `train` or `load`."""
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model)

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "Tokenizer":
        """Learns one vocabulary, to be shared by both languages, from the training split.

        The same texts in the same order give the same bytes.

        Args:
          texts: sentences of all languages.
          size: number of entries, specials and bytes included. A corpus with too few distinct
            words to fill it gives a smaller vocabulary, with a warning.

        Raises:
          ValueError: there is no text, or `size` has no room for the bytes and the characters.
        """
        sentences = _sentences(texts)
        if size <= UNK + 256:
            raise ValueError(
                f"cannot learn a vocabulary of {size} entries: 4 specials and 256 bytes need an entry"
                " each, and so does every frequent character"
            )
        try:
            tokenizer = cls(_learned(sentences, model_type="bpe", vocab_size=size))
        except RuntimeError as error:
            raise ValueError(
                f"cannot learn a vocabulary of {size} entries from {len(sentences)} lines; 4"
                " specials, 256 bytes and every frequent character need an entry each, so choose a"
                f" larger size (sentencepiece says: {str(error).split('] ')[-1].strip()})"
            ) from error
        if len(tokenizer) < size:
            warnings.warn(
                f"asked for a vocabulary of {size} entries; {len(sentences)} lines are enough for"
                f" {len(tokenizer)}, which is what is used",
                stacklevel=2,
            )
        return tokenizer

    @classmethod
    def characters(cls, texts: Iterable[str]) -> "Tokenizer":
        """A vocabulary of single characters; those that are not in the texts are spelt in bytes.

        Args:
          texts: what the characters are from; each gets an entry, after the specials and the bytes.

        Raises:
          ValueError: there is no text.

        >>> tokenizer = Tokenizer.characters(["low lower"])
        >>> tokenizer.pieces(tokenizer.encode("owl é"))
        ['▁', 'o', 'w', 'l', '▁', '<0xC3>', '<0xA9>']
        """
        sentences = _sentences(texts)
        size = UNK + 257 + len(set().union(*sentences))  # an upper bound: a line end has no entry
        return cls(_learned(sentences, model_type="char", vocab_size=size, character_coverage=1.0))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Reads what `save` wrote.

        Raises:
          FileNotFoundError: there is no such file.
          ValueError: the file is not whole, or was not made by `Tokenizer.train`.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}; a checkpoint is of no use without it")
        try:
            tokenizer = cls(path.read_bytes())
        except RuntimeError as error:
            raise ValueError(f"{path} is not a tokenizer, or not all of one") from error
        processor = tokenizer._processor
        specials = tuple(
            getattr(processor, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")
        )
        if specials != (PAD, BOS, EOS, UNK) or processor.decode(processor.encode(" \t ")) != " \t ":
            raise ValueError(
                f"{path} was not made by Tokenizer.train: expected ids 0 to 3 to be padding, begin,"
                " end and unknown, bytes as a last resort, and no normalisation"
            )
        return tokenizer

    def save(self, path: str | os.PathLike) -> Path:
        """Writes the tokenizer, whole or not at all; conventionally as `tokenizer.model`."""
        return write_atomically(path, self._model)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the vocabulary and its merges, in hexadecimal: swapping two entries shows."""
        return hashlib.sha256(self._model).hexdigest()

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Text to ids, without begin and end.

        Raises:
          TypeError: `text` is not a string.
          ValueError: `text` has half of a surrogate pair, which UTF-8 cannot write.
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts to ids, as `encode` does each."""
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"expected text {number} to be a str, got {type(text).__name__}")
        try:
            plain = iter(self._processor.encode([" " + t for t in texts if _SPACE not in t]))
            return [self._spelt(t) if _SPACE in t else next(plain) for t in texts]
        except (UnicodeEncodeError, TypeError) as error:
            raise ValueError(
                "expected text that UTF-8 can write; half of a surrogate pair is in it"
            ) from error

    def _spelt(self, text: str) -> list[int]:
        """`encode` for a text that holds the very character that stands for a space."""
        mark = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in _SPACE.encode()]
        first, *others = self._processor.encode((" " + text).split(_SPACE))
        return first + [token for ids in others for token in mark + ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text: stops at the first end token, leaves padding, begin and unknown out.

        Bytes that don't make a character, as a half-trained model writes them, become U+FFFD.

        Raises:
          ValueError: an id is not in the vocabulary.
        """
        kept = []
        for token in map(int, ids):
            if token == EOS:
                break
            if token not in (PAD, BOS, UNK):
                kept.append(self._checked(token))
        return self._processor.decode(kept).removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The entries behind ids, one string each, for the axes of a heat map; `▁` is a space."""
        return [self._processor.id_to_piece(self._checked(int(token))) for token in ids]

    def _checked(self, token: int) -> int:
        if not 0 <= token < len(self):
            raise ValueError(f"expected ids from 0 to {len(self) - 1}, got {token}")
        return token


def _sentences(texts: Iterable[str]) -> list[str]:
    sentences = [" " + text for text in texts if text.strip()]
    if not sentences:
        raise ValueError("expected text to learn a vocabulary from: every line is blank")
    return sentences


def _learned(sentences: Sequence[str], **options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,  # `encode` writes the space itself, see there.
        max_sentence_length=1 << 20,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNK,
        num_threads=4,  # The result depends on it.
        minloglevel=2,
        **options,
    )
    return model.getvalue()
