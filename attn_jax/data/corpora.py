"""Where parallel text comes from."""

import os
from pathlib import Path

from attn_jax.data.download import cache_directory, download
from attn_jax.data.lines import read_lines
from attn_jax.data.splits import Corpus as Corpus
from attn_jax.data.splits import Pairs as Pairs
from attn_jax.data.splits import split
from attn_jax.data.tfds_corpora import tfds as tfds

PathLike = str | os.PathLike

MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K_PAIRS = ("en-fr", "en-de", "de-en", "fr-en", "de-fr", "fr-de")
_MULTI30K_SPLITS = ("train", "val", "test_2016_flickr")
_MULTI30K_SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}


def aligned(
    train: tuple[PathLike, PathLike],
    validation: tuple[PathLike, PathLike] | None = None,
    test: tuple[PathLike, PathLike] | None = None,
    *,
    languages: tuple[str, str] = ("source", "target"),
    held_out: float = 0.1,
    seed: int = 0,
) -> Corpus:
    """Text in two files whose lines correspond: line n of one translates line n of the other.

    Args:
      train: the two files, plain or `.gz`; pairs with a blank side are left out, with a warning.
      validation: two more; without, they are held out of `train` (see `split`).
      test: two more; without, they are held out of `train`, too.
      languages: of source and target.
      held_out: part of `train` to hold out where both are missing; half of it for one.
      seed: chooses which.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: files have different numbers of lines (both are named), a line is not UTF-8, or
        there is no text.
    """
    half = held_out / 2
    corpus = split(
        _two_files(*train),
        languages=languages,
        validation=half if validation is None else 0,
        test=half if test is None else 0,
        seed=seed,
    )
    return Corpus(
        corpus.train,
        corpus.validation if validation is None else _two_files(*validation),
        corpus.test if test is None else _two_files(*test),
        *languages,
    )


def tab_separated(
    path: PathLike,
    *,
    columns: tuple[int, int] = (0, 1),
    languages: tuple[str, str] = ("source", "target"),
    held_out: float = 0.1,
    seed: int = 0,
) -> Corpus:
    """One file of `source TAB target` lines, as Tatoeba's and Anki's downloads are.

    A third column, which there says who wrote the sentence, is ignored; so are blank lines.

    Args:
      path: the file, plain or `.gz`.
      columns: of source and target; (1, 0) translates the other way.
      languages: of source and target.
      held_out: part of the pairs to hold out, half to validate and half to test (see `split`).
      seed: chooses which.

    Raises:
      FileNotFoundError: the file is missing.
      ValueError: a line has one column or more than three, or is not UTF-8 (its number is given);
        or there is no text.
    """
    if sorted(columns) != [0, 1]:
        raise ValueError(f"expected columns to be (0, 1) or (1, 0), got {columns}")
    sides: tuple[list[str], list[str]] = ([], [])
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) not in (2, 3):
            raise ValueError(
                f"{path}, line {number}: expected 2 or 3 columns with tabs between, got"
                f" {len(fields)}"
            )
        for side, column in zip(sides, columns):
            side.append(fields[column])
    if not sides[0]:
        raise ValueError(f"{path} is empty")
    half = held_out / 2
    return split(Pairs(*sides), languages=languages, seed=seed, validation=half, test=half)


def multi30k(
    pair: str = "en-fr",
    directory: str | os.PathLike | None = None,
    cache: str | os.PathLike | None = None,
) -> Corpus:
    """Multi30k, task 1, raw text: 29,000 pairs to train on, 1,014 to validate, 1,000 to test.

    Args:
      pair: one of `MULTI30K_PAIRS`: any two of `en`, `fr` and `de`.
      directory: holds `{train,val,test_2016_flickr}.{en,de,fr}`, each plain or `.gz`. Without,
        the files are downloaded from the project's repository, once, and verified.
      cache: where downloads are kept; by default `$XDG_CACHE_HOME/attn_jax/multi30k`.

    Raises:
      ValueError: there is no such pair; or a download is not the file it should be.
      FileNotFoundError: a file is missing in `directory`, or cannot be downloaded.

    References: Elliott et al. (2016), https://arxiv.org/abs/1605.00459; test_2016_flickr is its
      test set; French: Elliott et al. (2017), https://arxiv.org/abs/1710.07177.
    """
    if pair not in MULTI30K_PAIRS:
        raise ValueError(f"expected pair to be one of {', '.join(MULTI30K_PAIRS)}, got {pair!r}")
    source, target = pair.split("-")

    def file(split: str, language: str) -> Path:
        name = f"{split}.{language}"
        if directory is None:
            return _downloaded(name + ".gz", Path(cache or cache_directory() / "multi30k"))
        found = [p for p in (Path(directory, name + ".gz"), Path(directory, name)) if p.is_file()]
        if not found:
            raise FileNotFoundError(
                f"expected {name}.gz or {name} in {directory}: neither is there"
            )
        return found[0]

    train, validation, test = (
        (file(split, source), file(split, target)) for split in _MULTI30K_SPLITS
    )
    return aligned(train, validation, test, languages=(source, target))


def _downloaded(name: str, cache: Path) -> Path:
    otherwise = (
        "to use files that are here already, put Multi30k's in a directory and say"
        " --config.data.directory=DIR"
    )
    return download(MULTI30K_URL + name, cache / name, _MULTI30K_SHA256[name], otherwise=otherwise)


def _two_files(source: PathLike, target: PathLike) -> Pairs:
    texts = [list(read_lines(path)) for path in (source, target)]
    if len(texts[0]) != len(texts[1]):
        raise ValueError(
            f"expected files whose lines correspond: {source} has {len(texts[0])} lines,"
            f" {target} has {len(texts[1])}"
        )
    if not texts[0]:
        raise ValueError(f"{source} and {target} are empty")
    return Pairs(*texts)
