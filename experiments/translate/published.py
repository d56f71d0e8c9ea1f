"""A published MarianMT as a system of this experiment, and a run's subwords as MarianMT's files."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import sentencepiece
from flax import nnx
from sentencepiece import sentencepiece_model_pb2

from attn_jax import interop
from attn_jax.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from attn_jax.models.transformer import Transformer

SOURCE, TARGET, VOCABULARY = "source.spm", "target.spm", "vocab.json"
NEVER = -1e30
"""The logit of a token that is never written; finite, so that label smoothing is."""


class PublishedTokenizer:
    """The subwords of a MarianMT directory, in the ids of this experiment.

    Text is cut by source.spm, subwords are joined by target.spm, and vocab.json numbers both. Ids 0 to
    3 are padding, begin, end and unknown, as of :class:`attn_jax.data.Tokenizer`; what follows keeps its
    order. A source may begin with the language it is to be translated to, as in ``>>fra<<``.
    Punctuation is not normalised.

    Args:
      directory: what ``transformers`` writes with ``save_pretrained``, of model and tokenizer.

    Attributes:
      order: the published id of each id here, `v`.

    Raises:
      FileNotFoundError: a file is missing; the message names it.
      ValueError: a file is not what its name says, or a special token is not in the vocabulary.
    """

    pad, bos, eos, unk = PAD, BOS, EOS, UNK

    def __init__(self, directory: Path):
        self.directory = directory
        self._files = {
            name: _read(directory / name) for name in (SOURCE, TARGET, VOCABULARY, "config.json")
        }
        published = _json(directory / VOCABULARY, self._files[VOCABULARY])
        config = _json(directory / "config.json", self._files["config.json"])
        names = "pad_token_id", "decoder_start_token_id", "eos_token_id"
        if absent := [name for name in names if not isinstance(config.get(name), int)]:
            raise ValueError(f"{directory / 'config.json'} says no {', '.join(absent)}")
        if "<unk>" not in published:
            raise ValueError(f"{directory / VOCABULARY} has no entry <unk>")
        specials = [*(config[name] for name in names), published["<unk>"]]
        others = sorted(set(published.values()) - set(specials))
        self.order = np.array([*specials, *others])
        texts = {number: text for text, number in published.items()}
        if unnamed := [number for number in specials if number not in texts]:
            raise ValueError(f"{directory / VOCABULARY} has no entry of the ids {unnamed}")
        self._texts = [texts[number] for number in self.order.tolist()]
        if specials[BOS] == specials[PAD]:
            self._texts[BOS] = "<s>"
        self._ids = {text: number for number, text in enumerate(self._texts)}
        self._source, self._target = (
            _processor(directory / name, self._files[name]) for name in (SOURCE, TARGET)
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its files, in hexadecimal."""
        return hashlib.sha256(b"".join(self._files[n] for n in sorted(self._files))).hexdigest()

    def __len__(self) -> int:
        return len(self._texts)

    def encode(self, text: str) -> list[int]:
        """Text to ids, without begin and end."""
        pieces: list[str] = []
        if text.startswith(">>") and (stop := text.find("<<")) != -1:
            pieces, text = [text[: stop + 2]], text[stop + 2 :]
        ids = (self._ids.get(piece, UNK) for piece in pieces + self._source.encode_as_pieces(text))
        return [token if token >= UNK else UNK for token in ids]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts to ids, as `encode` does each."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text: stops at the first end token, leaves padding and begin out."""
        kept = []
        for token in map(int, ids):
            if token == EOS:
                break
            if token not in (PAD, BOS):
                kept.append(self._texts[token])
        return self._target.decode_pieces(kept).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The entries behind ids, one string each."""
        return [self._texts[int(token)] for token in ids]

    def files(self) -> dict[str, bytes]:
        """What :func:`marian_files` says of a run's own."""
        spms = {name: self._files[name] for name in (SOURCE, TARGET)}
        return {**spms, **_said(self._texts)}


@functools.lru_cache(maxsize=1)
def published(directory: str) -> tuple[Transformer, PublishedTokenizer]:
    """The model of a MarianMT directory, its tokens numbered as its tokenizer here does.

    Raises:
      FileNotFoundError, ValueError: as of ``interop.load`` and :class:`PublishedTokenizer`; or it is
        another architecture.
    """
    if not directory:
        raise ValueError("which published model? give --config.model.directory=DIR")
    model = interop.load(directory)
    if not isinstance(model, Transformer):
        raise ValueError(f"expected a MarianMT in {directory}, it holds a {type(model).__name__}")
    tokenizer = PublishedTokenizer(Path(directory))
    return renumbered(model, tokenizer.order), tokenizer


def renumbered(model: Transformer, order: np.ndarray) -> Transformer:
    """The same model of tokens with other ids.

    Args:
      model: with a bias of the logits.
      order: the id that each new id had, `v`; the first three are padding, begin and end. Where begin
        was padding too, the new begin is never written.
    """
    made = nnx.clone(model)
    made.config = dataclasses.replace(
        model.config, vocabulary=len(order), padding=PAD, begin=BOS, end=EOS
    )
    table, bias = made.source_embedding.table, made.output_bias
    table.set_value(table.get_value()[order])
    bias.set_value(bias.get_value()[order])
    if order[BOS] == order[PAD]:
        bias.set_value(bias.get_value().at[BOS].set(jnp.asarray(NEVER, bias.get_value().dtype)))
    return made


def marian_files(tokenizer: Tokenizer | PublishedTokenizer, model: bytes) -> dict[str, bytes]:
    """The files that ``MarianTokenizer`` reads, which cuts text into the same ids.

    Args:
      tokenizer: of the run.
      model: what it serialised, tokenizer.model.
    """
    if isinstance(tokenizer, PublishedTokenizer):
        return tokenizer.files()
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)  # type: ignore[attr-defined]
    proto.normalizer_spec.add_dummy_prefix = True  # which `Tokenizer.encode` writes itself
    spm = proto.SerializeToString()
    return {SOURCE: spm, TARGET: spm, **_said(tokenizer.pieces(range(len(tokenizer))))}


def _said(texts: Sequence[str]) -> dict[str, bytes]:
    names = {"unk_token": UNK, "eos_token": EOS, "pad_token": PAD}
    config = {"tokenizer_class": "MarianTokenizer", **{n: texts[i] for n, i in names.items()}}
    numbers = {text: number for number, text in enumerate(texts)}
    return {
        VOCABULARY: json.dumps(numbers, ensure_ascii=False, indent=0).encode(),
        "tokenizer_config.json": json.dumps(config, ensure_ascii=False, indent=2).encode(),
    }


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"no {path.name} in {path.parent}, which a MarianMT needs")
    return path.read_bytes()


def _json(path: Path, content: bytes) -> dict:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"expected an object in {path}, got a {type(found).__name__}")
    return found


def _processor(path: Path, content: bytes) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(content)
    except RuntimeError as error:
        raise ValueError(f"{path} is not a sentencepiece model, or not all of one") from error
    return processor
