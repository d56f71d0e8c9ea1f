"""How good translations are."""

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

NAMES = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}
"""The metrics, as sacrebleu calls them and as they are called here."""

LENGTHS = (5, 10, 15, 20, 25, 30, 40, 50, 75, 100)
"""Where sources are divided, in tokens: up to 5, up to 10, and so on."""


@dataclasses.dataclass(frozen=True)
class Quality:
    """Scores of a set of translations.

    Args:
      bleu, chrf: sacrebleu's, of the corpus, from 0 to 100.
      ter: sacrebleu's translation edit rate, in percent: the less the better.
      exact: the part of the translations that equal their reference, in percent.
      interval: of `bleu`, `chrf` and `ter`, half the width of the 95 % interval of 1,000 bootstrap
        samples of the sentences.
      bleu_signature, chrf_signature, ter_signature: how they were computed, to be given with the
        numbers.
    """

    bleu: float
    chrf: float
    ter: float
    exact: float
    interval: Mapping[str, float]
    bleu_signature: str
    chrf_signature: str
    ter_signature: str


def quality(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Quality:
    """Scores translations against one reference each.

    Args:
      hypotheses: one line each.
      references: as they are; neither side is tokenised or lowercased beforehand.
      language: of both; Chinese is scored by characters (sacrebleu's `zh`), others by `13a`.

    >>> found = quality(["the cat sat on the mat"], ["the cat sat on the mat"], "en")
    >>> round(found.bleu), round(found.chrf), round(found.ter), round(found.exact)
    (100, 100, 0, 100)
    """
    metrics = _metrics(language)
    found = _tested([("this", hypotheses)], references, metrics)
    signatures = {NAMES[key]: str(metric.get_signature()) for key, metric in metrics.items()}
    return Quality(
        bleu=found["bleu"][0].score,
        chrf=found["chrf"][0].score,
        ter=found["ter"][0].score,
        exact=_exact(hypotheses, references),
        interval={name: float(results[0].ci) for name, results in found.items()},
        bleu_signature=signatures["bleu"],
        chrf_signature=signatures["chrf"],
        ter_signature=signatures["ter"],
    )


def progress(
    hypotheses: Sequence[str], references: Sequence[str], language: str
) -> dict[str, float]:
    """`bleu`, `chrf` and `exact` of :func:`quality`, which alone are quick enough while training."""
    metrics = _metrics(language)
    scores = {
        NAMES[key]: metrics[key].corpus_score(hypotheses, [references]).score
        for key in ("BLEU", "chrF2")
    }
    return {**scores, "exact": _exact(hypotheses, references)}


def chances(
    hypotheses: Sequence[str], others: Sequence[str], references: Sequence[str], language: str
) -> dict[str, float]:
    """How probable differences as large as those of two systems are, if they are of one quality.

    The p of `bleu`, `chrf` and `ter` by 1,000 paired bootstrap samples of the sentences; arguments as
    of :func:`quality`, with the translations of the other system beside.

    References: Koehn (2004); the samples are sacrebleu's, of seed 12345.

    >>> lines = ["the cat sat on the mat", "a dog ran over the red road"]
    >>> chances(lines, lines, lines, "en")["bleu"]
    1.0
    """
    if list(hypotheses) == list(others):  # of no difference at all sacrebleu says 0.001
        return dict.fromkeys(NAMES.values(), 1.0)
    systems = [("other", others), ("this", hypotheses)]
    found = _tested(systems, references, _metrics(language))
    return {name: float(results[1].p_value) for name, results in found.items()}


@dataclasses.dataclass(frozen=True)
class OfLength:
    """How good the translations of sources of about one length are.

    Args:
      tokens: the mean length of the sources.
      sentences: how many there are.
      bleu: of these alone.
    """

    tokens: float
    sentences: int
    bleu: float


def by_length(
    lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str,
    *,
    fewest: int = 20,
) -> list[OfLength]:
    """BLEU of the shortest sources, of longer ones, and so on.

    Args:
      lengths: of the sources, in tokens.
      hypotheses, references, language: as of :func:`quality`.
      fewest: sentences of a group; fewer say little, and join the next group, or the last.

    >>> [(x.tokens, x.sentences) for x in by_length([1, 3, 30], "abc", "abc", "en", fewest=1)]
    [(2.0, 2), (30.0, 1)]
    """
    groups: list[list[int]] = [[]]
    for low, high in itertools.pairwise((0, *LENGTHS, math.inf)):
        if len(groups[-1]) >= fewest:
            groups.append([])
        groups[-1] += [i for i, length in enumerate(lengths) if low < length <= high]
    if len(groups) > 1 and len(groups[-1]) < fewest:
        last = groups.pop()
        groups[-1] += last
    metric = _metrics(language)["BLEU"]
    found = []
    for members in filter(None, groups):
        some, right = ([side[i] for i in members] for side in (hypotheses, references))
        mean = sum(lengths[i] for i in members) / len(members)
        found.append(OfLength(mean, len(members), metric.corpus_score(some, [right]).score))
    return found


def one_line(text: str) -> str:
    """The text without what a reader of text files might take for the end of a line.

    >>> one_line("a\\r\\nb\\u2028c ")
    'a b c'
    """
    return re.sub(r"[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+", " ", text).strip()


def _metrics(language: str) -> dict[str, Metric]:
    chinese = language == "zh"
    bleu = BLEU(tokenize="zh" if chinese else "13a")
    return {"BLEU": bleu, "chrF2": CHRF(), "TER": TER(chinese, asian_support=chinese)}


def _tested(
    systems: list[tuple[str, Sequence[str]]],
    references: Sequence[str],
    metrics: Mapping[str, Metric],
) -> dict[str, list[Any]]:
    """sacrebleu's results of bootstrapping, by our names of the metrics, one for each system."""
    _, found = PairedTest(systems, metrics, [references], "bs")()
    return {name: list(found[key]) for key, name in NAMES.items()}


def _exact(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    same = sum(h.strip() == r.strip() for h, r in zip(hypotheses, references, strict=True))
    return 100 * same / len(references)
