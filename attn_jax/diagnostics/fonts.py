"""Fonts that have the characters of a text."""

import functools
import unicodedata
from collections.abc import Iterable

from matplotlib import font_manager

FIRST = "DejaVu Sans"  # comes with matplotlib, so that most text looks the same everywhere
MISSING = "□"
_ALIKE = ("last resort", "adobe blank")  # one picture for all characters of a script


def families_for(text: Iterable[str]) -> tuple[list[str], set[str]]:
    """Installed font families that together have the characters of the text, and what none has.

    The families come in the order in which matplotlib should try them: first DejaVu Sans, then, for
    what it lacks, the family with most of the missing characters, and so on.

    >>> families_for(["naïve", "▁été"])
    (['DejaVu Sans'], set())
    """
    missing = set().union(*text) - _characters(FIRST)
    families = [FIRST]
    while missing:
        best = max(
            _installed(), key=lambda family: (len(missing & _characters(family)), _rank(family))
        )
        found = missing & _characters(best)
        if not found:
            break
        families.append(best)
        missing -= found
    return families, missing


def visible(text: str) -> str:
    """The text with spaces other than the plain one as "␣" and control characters escaped.

    >>> print(visible("5\\u00a0m\\n"))
    5␣m\\n
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if unicodedata.category(character) == "Zs":
        return "␣"
    return character.encode("unicode_escape").decode()


def _rank(family: str) -> tuple[bool, ...]:
    """Of families that serve alike: no serifs, letters of their own widths, simplified Chinese."""
    words = family.split()
    return "Sans" in words, "Mono" not in words, "SC" in words


@functools.cache
def _installed() -> dict[str, str]:
    """The file of each family with an upright face of normal weight and width, by name."""
    return {
        entry.name: entry.fname
        for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: entry.name)
        if (entry.style, entry.weight, entry.stretch) == ("normal", 400, "normal")
        and not entry.name.lower().startswith(_ALIKE)
    }


@functools.cache
def _characters(family: str) -> frozenset[str]:
    try:
        return frozenset(map(chr, font_manager.get_font(_installed()[family]).get_charmap()))
    except (OSError, RuntimeError):  # a broken file is not a font
        return frozenset()
