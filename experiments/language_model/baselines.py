"""What is known of a text without a network: bits per character, to stand beside the model's."""

import lzma
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

CODES = 256  # what a character is before anything is known of it: one of so many


def ngram_bits(train: Sequence[str], heldout: Sequence[str], order: int) -> float:
    r"""Bits per character of a character n-gram model, smoothed by Witten and Bell's method.

    .. math:: p_n(c \mid h) = \frac{N(h c) + u(h)\, p_{n-1}(c \mid h')}{N(h) + u(h)}

    There N counts, u is how many different characters followed h, and h' is h without its first.

    Args:
      train: documents to count in.
      heldout: documents to be known.
      order: n, of 1 or more; a character is predicted from the n − 1 before it.

    Reference: Witten and Bell (1991), method C.

    >>> ngram_bits(["aaaa"], ["aaaa"], 1) < 0.4 < ngram_bits(["abab"], ["aaaa"], 1)
    True
    """
    counts: list[dict[str, Counter[str]]] = [defaultdict(Counter) for _ in range(order)]
    for text in train:
        for history, character in _grams(text, order):
            for n in range(len(history) + 1):
                counts[n][history[len(history) - n :]][character] += 1
    totals = [{h: (found.total(), len(found)) for h, found in level.items()} for level in counts]
    bits = 0.0
    for text in heldout:
        for history, character in _grams(text, order):
            p = 1 / CODES
            for n in range(len(history) + 1):
                h = history[len(history) - n :]
                if h in totals[n]:
                    total, distinct = totals[n][h]
                    p = (counts[n][h][character] + distinct * p) / (total + distinct)
            bits -= math.log2(p)
    return bits / sum(map(len, heldout))


def compressed_bits(train: Sequence[str], heldout: Sequence[str]) -> float:
    """Bits per character that xz needs for a text once it has seen what is trained on."""
    known = "\n".join(train)
    whole = "\n".join([known, *heldout])
    return 8 * (_compressed(whole) - _compressed(known)) / sum(map(len, heldout))


def _compressed(text: str) -> int:
    settings = {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 1 << 26}
    return len(lzma.compress(text.encode(), lzma.FORMAT_RAW, filters=[settings]))


def _grams(text: str, order: int) -> Iterator[tuple[str, str]]:
    for i, character in enumerate(text):
        yield text[max(0, i - order + 1) : i], character
