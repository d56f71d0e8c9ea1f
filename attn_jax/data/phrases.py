"""An endless parallel corpus: real phrases of two languages, made by Babel and num2words."""

import hashlib
import operator
import random
from collections.abc import Iterator

from babel import Locale

from attn_jax.data.corpora import Corpus, Pairs
from attn_jax.data.phrase_templates import TEMPLATES, Template

LOCALES = {"en": "en", "fr": "fr", "de": "de", "zh": "zh_Hans"}
LARGEST = 10_000_000
_HELD_OUT = {0: "test", 1: "validation"}  # sixteenths of all that can be said; the rest is "train"


def phrases(
    pair: str = "en-fr", size: int = 30_000, seed: int = 0, held_out: int = 1_000
) -> Corpus:
    """Dates, times, relative times, units, prices, places, languages and number words.

    The phrases are those of the Unicode CLDR, with its spaces and punctuation untouched, and of
    num2words. Every template has about the same number of phrases, as far as it reaches.

    A phrase is a template and a combination of values for its slots. Which split a combination
    belongs to is decided by a hash of it alone: one that is in the test of some size and seed is in
    the training split of none. No string, source or target, occurs twice in a corpus, so that every
    source has one target, no held-out phrase was seen in training, and an exact translation cannot
    be had by looking one up. The held-out splits depend on the seed and not on `size`.

    Args:
      pair: source and target language, of `"en"`, `"fr"`, `"de"` and `"zh"` (simplified), as in
        `"en-fr"`. num2words has no Chinese: pairs with it have no number words.
      size: how many training pairs, at most ten million.
      seed: which ones.
      held_out: how many pairs of validation and how many of test, at most a hundred thousand.

    Returns:
      A `Corpus`, the same on every machine for the same versions of Babel and num2words.

    Raises:
      ValueError: a pair of other languages, or a size out of range.

    >>> corpus = phrases("en-fr", size=100, held_out=10)
    >>> len(corpus.train), len(corpus.validation), len(corpus.test)
    (100, 10, 10)
    >>> corpus.test.source[5], corpus.test.target[5]
    ('December 28, 2036', '28 décembre 2036')
    """
    source, target = _languages(pair)
    for name, value, largest in (("size", size, LARGEST), ("held_out", held_out, LARGEST // 100)):
        if not 1 <= operator.index(value) <= largest:
            raise ValueError(f"expected {name} to be 1 to {largest:,}, not {value:,}")
    templates = templates_of(source, target)
    locales = Locale.parse(LOCALES[source]), Locale.parse(LOCALES[target])
    said: tuple[set[str], set[str]] = set(), set()
    splits = {}
    for split in ("test", "validation", "train"):
        wanted = size if split == "train" else held_out
        pairs = Pairs([], [])
        for template, values in combinations(templates, split, seed):
            phrase = tuple(template.phrase(locale, *values) for locale in locales)
            if any(text in before for text, before in zip(phrase, said)):
                continue
            for text, before, side in zip(phrase, said, (pairs.source, pairs.target)):
                before.add(text)
                side.append(text)
            if len(pairs) == wanted:
                break
        splits[split] = pairs
    return Corpus(**splits, source_language=source, target_language=target)


def templates_of(*languages: str) -> tuple[Template, ...]:
    """The templates that are known in all of the given languages."""
    return tuple(t for t in TEMPLATES if t.languages is None or t.languages.issuperset(languages))


def combinations(
    templates: tuple[Template, ...], split: str, seed: int
) -> Iterator[tuple[Template, tuple]]:
    """All combinations of a split in random order, the templates taking turns while they last."""
    turns = {template: _shuffled(template, split, seed) for template in templates}
    while turns:
        for template, rest in tuple(turns.items()):
            values = next(rest, None)
            if values is None:
                del turns[template]
            else:
                yield template, values


def split_of(template: Template, index: int) -> str:
    """The split that a combination belongs to, whatever the seed and the size of a corpus."""
    name = f"{template.name} {index}".encode()
    sixteenth = hashlib.blake2b(name, digest_size=1).digest()[0] % 16
    return _HELD_OUT.get(sixteenth, "train")


def _shuffled(template: Template, split: str, seed: int) -> Iterator[tuple]:
    """Fisher and Yates's shuffle of the template's combinations; it keeps what it has moved."""
    rng = random.Random(f"{seed} {split} {template.name}")
    moved: dict[int, int] = {}
    for first in range(template.count):
        other = first + int(rng.random() * (template.count - first))
        index = moved.get(other, other)
        moved[other] = moved.pop(first, first)
        values = template.values(index)
        if values is not None and split_of(template, index) == split:
            yield values


def _languages(pair: str) -> tuple[str, str]:
    source, _, target = pair.partition("-")
    if source == target or not {source, target} <= LOCALES.keys():
        known = ", ".join(LOCALES)
        raise ValueError(
            f"expected a pair of two languages of {known}, as in 'en-fr'; given {pair!r}"
        )
    return source, target
