"""How good translations are."""

import dataclasses
import re
from collections.abc import Sequence

from sacrebleu.metrics import BLEU, CHRF


@dataclasses.dataclass(frozen=True)
class Quality:
    """Scores of a set of translations, each from 0 to 100.

    Args:
      bleu, chrf: sacrebleu's, of the corpus.
      exact: the part of the translations that equal their reference.
      bleu_signature, chrf_signature: how they were computed, to be given with the numbers.
    """

    bleu: float
    chrf: float
    exact: float
    bleu_signature: str
    chrf_signature: str


def quality(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Quality:
    """Scores translations against one reference each.

    Args:
      hypotheses: one line each.
      references: as they are; neither side is tokenised or lowercased beforehand.
      language: of both; Chinese is scored by characters (sacrebleu's `zh`), others by `13a`.

    >>> found = quality(["the cat sat on the mat"], ["the cat sat on the mat"], "en")
    >>> round(found.bleu), round(found.chrf), round(found.exact)
    (100, 100, 100)
    """
    bleu, chrf = BLEU(tokenize="zh" if language == "zh" else "13a"), CHRF()
    scores = [metric.corpus_score(hypotheses, [references]).score for metric in (bleu, chrf)]
    same = sum(h.strip() == r.strip() for h, r in zip(hypotheses, references, strict=True))
    return Quality(
        bleu=scores[0],
        chrf=scores[1],
        exact=100 * same / len(references),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def one_line(text: str) -> str:
    """The text without what a reader of text files might take for the end of a line.

    >>> one_line("a\\r\\nb\\u2028c ")
    'a b c'
    """
    return re.sub(r"[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+", " ", text).strip()
