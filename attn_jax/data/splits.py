"""Parallel text, and how a part of it is held out."""

import dataclasses
import hashlib
import warnings
from collections import defaultdict
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, in order.

    >>> pairs = Pairs(["yes", "no"], ["oui", "non"])
    >>> len(pairs), list(pairs)
    (2, [('yes', 'oui'), ('no', 'non')])
    """

    source: list[str]
    target: list[str]

    def __post_init__(self):
        if len(self.source) != len(self.target):
            raise ValueError(
                f"expected a translation for every sentence: {len(self.source)} sources,"
                f" {len(self.target)} targets"
            )

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.source, self.target)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Three splits of parallel text; languages are codes such as `en`."""

    train: Pairs
    validation: Pairs
    test: Pairs
    source_language: str = "source"
    target_language: str = "target"

    def __post_init__(self):
        if not len(self.train):
            raise ValueError("expected text to train on: no pair has any on both sides")


def split(
    pairs: Pairs,
    *,
    languages: tuple[str, str] = ("source", "target"),
    validation: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
) -> Corpus:
    """Holds parts of a corpus out.

    No sentence, of either language, is in two splits: pairs that share one, up to case and the
    space around it, directly or through other pairs, stay together. The split depends on the
    text and the seed, not on the order of the lines.

    Args:
      pairs: all there is; those with a blank side are left out, with a warning.
      languages: of source and target.
      validation: the part to validate on, in [0, 1).
      test: the part to test on, in [0, 1).
      seed: chooses which.

    Raises:
      ValueError: the parts leave nothing to train on, or too few pairs share no sentence with the
        rest to fill a part that is not 0.

    >>> corpus = split(Pairs([f"s{n}" for n in range(40)], [f"t{n}" for n in range(40)]))
    >>> len(corpus.train), len(corpus.validation), len(corpus.test)
    (36, 2, 2)
    """
    if min(validation, test) < 0 or validation + test >= 1:
        raise ValueError(
            f"expected to hold out parts that are 0 or more and add up to less than 1, got"
            f" {validation} for validation and {test} for test"
        )
    pairs = trainable(pairs)
    if not len(pairs) or not validation + test:
        return Corpus(pairs, Pairs([], []), Pairs([], []), *languages)
    shares = {"validation": validation, "test": test}
    room = {n: max(1, round(share * len(pairs))) for n, share in shares.items() if share}
    parts: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for group in _groups(pairs, seed):
        name = next((n for n in room if len(parts[n]) + len(group) <= room[n]), "train")
        parts[name] += group
    empty = [name for name in ("train", *room) if not parts[name]]
    if empty:
        raise ValueError(
            f"cannot split {len(pairs)} pairs, {' and '.join(empty)} would be empty: too few share"
            " no sentence with the rest; give files for validation and test, or hold nothing out"
        )

    def part(name: str) -> Pairs:
        chosen = sorted(parts[name])
        return Pairs([pairs.source[i] for i in chosen], [pairs.target[i] for i in chosen])

    return Corpus(part("train"), part("validation"), part("test"), *languages)


def trainable(pairs: Pairs) -> Pairs:
    """The pairs that have text on both sides, with a warning that counts the others."""
    kept = [(s, t) for s, t in pairs if s.strip() and t.strip()]
    if len(kept) == len(pairs):
        return pairs
    warnings.warn(
        f"{len(pairs) - len(kept)} of {len(pairs)} pairs have a blank side; training leaves them out",
        stacklevel=4,
    )
    return Pairs([s for s, _ in kept], [t for _, t in kept])


def _groups(pairs: Pairs, seed: int) -> list[list[int]]:
    """Pairs connected through shared sentences, in an order that only text and seed determine."""
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def root(node: tuple[int, str]) -> tuple[int, str]:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    nodes = [((0, s.strip().casefold()), (1, t.strip().casefold())) for s, t in pairs]
    for source, target in nodes:
        # The smaller becomes the root, so that a group's root is its first sentence.
        low, high = sorted((root(source), root(target)))
        parent[high] = low
    groups = defaultdict(list)
    for number, (source, _) in enumerate(nodes):
        groups[root(source)].append(number)

    def place(item: tuple[tuple[int, str], list[int]]) -> bytes:
        return hashlib.sha256(f"{seed}\t{item[0][1]}".encode("utf-8", "surrogatepass")).digest()

    return [group for _, group in sorted(groups.items(), key=place)]
