"""Where a run's sentences come from: one class for each kind of source, each a config section."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from attn_jax.data.corpora import MULTI30K_PAIRS as MULTI30K_PAIRS
from attn_jax.data.corpora import Corpus, aligned, multi30k, tab_separated, tfds
from attn_jax.data.phrases import phrases


class Source(Protocol):
    """A config section that a corpus can be loaded from."""

    one_answer: ClassVar[bool]
    """Whether a source has one right target, so that exact match and a memory mean something."""

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of the source and the target, or any words that tell them apart."""

    def load(self) -> Corpus:
        """The corpus, in three splits."""


class _Paired:
    """What has a pair of languages such as `en-fr`, the source first."""

    pair: str

    @property
    def languages(self) -> tuple[str, str]:
        """See :class:`Source`."""
        return languages(self.pair)


@dataclass
class Phrases(_Paired):
    """Phrases made by Babel and num2words, as many as are wanted; nothing is downloaded.

    Args:
      pair: two of en, fr, de and zh.
      size: pairs to train on.
      held_out: pairs to validate on, and as many to test on.
      seed: which ones.
    """

    one_answer: ClassVar[bool] = True
    pair: str = "en-fr"
    size: int = 20_000
    held_out: int = 1_000
    seed: int = 0

    def load(self) -> Corpus:
        """Generates them."""
        return phrases(self.pair, self.size, seed=self.seed, held_out=self.held_out)


@dataclass
class Multi30k(_Paired):
    """Multi30k, task 1: image captions; tested on test_2016_flickr.

    Args:
      pair: any two of en, fr and de, such as en-fr.
      directory: where the files are; downloaded when it is empty.
      cache: where downloads are kept; the user's cache directory when it is empty.
    """

    one_answer: ClassVar[bool] = False
    pair: str = "en-fr"
    directory: str = ""
    cache: str = ""

    def load(self) -> Corpus:
        """Reads them, or downloads them once."""
        return multi30k(self.pair, self.directory or None, self.cache or None)


@dataclass
class TwoFiles:
    """Two text files whose lines correspond, plain or gzip."""

    source: str = ""
    target: str = ""

    @property
    def paths(self) -> tuple[str, str] | None:
        """Both paths, or None where neither is given."""
        if bool(self.source) != bool(self.target):
            given = "source" if self.source else "target"
            missing = "target" if self.source else "source"
            raise ValueError(
                f"two files that correspond are needed; {given} is"
                f" {self.source or self.target}, and {missing} is not given"
            )
        return (self.source, self.target) if self.source else None


@dataclass
class Aligned(_Paired):
    """Your own text, in files whose lines correspond.

    Args:
      train: the two files to train on.
      validation: two to choose the checkpoint by; held out of `train` where not given.
      test: two to report on; held out of `train` where not given.
      pair: the languages, for scoring: `zh` as target is scored by characters.
      held_out: the part of `train` to hold out, half for each of the two.
      seed: which lines are held out.
    """

    one_answer: ClassVar[bool] = False
    train: TwoFiles = field(default_factory=TwoFiles)
    validation: TwoFiles = field(default_factory=TwoFiles)
    test: TwoFiles = field(default_factory=TwoFiles)
    pair: str = "source-target"
    held_out: float = 0.1
    seed: int = 0

    def load(self) -> Corpus:
        """Reads them."""
        if self.train.paths is None:
            raise ValueError(
                "which text? give --config.data.train.source=FILE --config.data.train.target=FILE"
            )
        return aligned(
            self.train.paths,
            self.validation.paths,
            self.test.paths,
            languages=self.languages,
            held_out=self.held_out,
            seed=self.seed,
        )


@dataclass
class TabSeparated(_Paired):
    """Your own text, in one file of `source TAB target` lines, as Tatoeba's downloads are.

    Args:
      file: the file, plain or gzip; a third column is ignored.
      pair: the languages of the columns.
      swapped: translate from the second column into the first.
      held_out: the part to hold out, half to choose the checkpoint by and half to report on.
      seed: which lines are held out.
    """

    one_answer: ClassVar[bool] = False
    file: str = ""
    pair: str = "source-target"
    swapped: bool = False
    held_out: float = 0.1
    seed: int = 0

    @property
    def languages(self) -> tuple[str, str]:
        """See :class:`Source`."""
        first, second = languages(self.pair)
        return (second, first) if self.swapped else (first, second)

    def load(self) -> Corpus:
        """Reads it."""
        if not self.file:
            raise ValueError("which text? give --config.data.file=FILE")
        return tab_separated(
            self.file,
            columns=(1, 0) if self.swapped else (0, 1),
            languages=self.languages,
            held_out=self.held_out,
            seed=self.seed,
        )


@dataclass
class Tatoeba(_Paired):
    """Tatoeba's English and Mandarin, as the Anki downloads have it.

    Args:
      pair: en-zh or zh-en.
      directory: where `cmn.txt` or `eng-cmn.tsv` is.
      held_out: the part to hold out, half to choose the checkpoint by and half to report on.
      seed: which lines are held out.
    """

    one_answer: ClassVar[bool] = False
    pair: str = "en-zh"
    directory: str = ""
    held_out: float = 0.1
    seed: int = 0

    def load(self) -> Corpus:
        """Reads it."""
        if self.pair not in ("en-zh", "zh-en"):
            raise ValueError(f"expected data.pair to be en-zh or zh-en, got {self.pair!r}")
        files = [Path(self.directory, name) for name in ("cmn.txt", "eng-cmn.tsv")]
        found = [file for file in files if self.directory and file.is_file()]
        if not found:
            raise FileNotFoundError(
                f"no cmn.txt or eng-cmn.tsv in {self.directory or 'data.directory, which is empty'};"
                " unpack cmn-eng.zip of https://www.manythings.org/anki/ somewhere, and give"
                " --config.data.directory=DIR"
            )
        swapped = self.pair == "zh-en"
        return TabSeparated(str(found[0]), "en-zh", swapped, self.held_out, self.seed).load()


@dataclass
class Tfds(_Paired):
    """A translation set of TensorFlow Datasets, prepared beforehand as array_record files.

    Args:
      name: with its configuration, such as wmt14_translate/de-en.
      pair: source and target: two of the set's languages.
      directory: TFDS's data directory; its own default when it is empty.
      train, validation, test: the splits; slices such as train[:99%] are understood.
    """

    one_answer: ClassVar[bool] = False
    name: str = "wmt14_translate/de-en"
    pair: str = "en-de"
    directory: str = ""
    train: str = "train"
    validation: str = "validation"
    test: str = "test"

    def load(self) -> Corpus:
        """Reads it, without TensorFlow."""
        splits = (self.train, self.validation, self.test)
        return tfds(self.name, self.languages, self.directory or None, splits)


def languages(pair: str) -> tuple[str, str]:
    """The two languages of a pair such as `en-fr`.

    Raises:
      ValueError: it does not name two.

    >>> languages("en-fr")
    ('en', 'fr')
    """
    source, _, target = pair.partition("-")
    if not source or not target:
        raise ValueError(f"expected a pair of languages such as en-fr, got {pair!r}")
    return source, target
