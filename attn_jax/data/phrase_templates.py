"""What the phrases corpus can say: templates with slots, filled from the CLDR and by num2words.

A template has slots, each with the values it may take; a choice of one value per slot is a
combination, and says one phrase in each language. All the words, patterns, plurals and spaces are
those of the Unicode CLDR as Babel 2.x carries it (the no-break spaces of French numbers and the
narrow one before an English "PM" included), or num2words'.
"""

import calendar
import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from babel import Locale, dates, lists, numbers, units
from num2words import num2words


def _codes(text: str) -> tuple[str, ...]:
    return tuple(text.split())


YEARS, MONTHS, DAYS = range(1980, 2050), range(1, 13), range(1, 32)
DATES = (YEARS, MONTHS, DAYS)
HOURS, MINUTES = range(24), range(60)
SPANS = range(1, 61)  # days
COUNTS = range(1, 100)
NUMBERS = (*range(1, 61), *(n / 10 for n in range(11, 50) if n % 10))
UNITS = _codes("""
    second minute hour day week month year millimeter centimeter meter kilometer mile gram kilogram
    liter milliliter hectare watt kilowatt volt calorie celsius percent megabyte
""")
SPEEDS = ("kilometer", "mile", "kilogram", "liter", "megabyte", "kilowatt", "calorie")
Period = Literal["second", "minute", "hour", "day", "week", "month", "year"]
PERIODS: tuple[Period, ...] = get_args(Period)
SECONDS = dict(zip(PERIODS, (1, 60, 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)))
FORWARD, BACKWARD = 1, -1
CENTS = (0, 25, 50, 99)
CURRENCIES = _codes("USD EUR GBP CHF CNY INR BRL CAD AUD SEK NOK DKK PLN CZK TRY MXN")
TERRITORIES = _codes("""
    FR DE CN US GB IT ES PT NL BE CH AT SE NO FI DK PL CZ GR TR RU UA JP KR IN ID VN TH AU NZ CA MX
    BR AR CL PE EG MA KE ZA
""")
LANGUAGES = _codes("""
    fr de zh en it es pt nl sv nb fi da pl cs el tr ru uk ja ko hi id vi th ar he sw hu ro fa
""")
DIGITS, HUNDRED = range(10), range(100)
THOUSANDS = (DIGITS, DIGITS, HUNDRED)  # a thousands digit, a hundreds digit, two more
# num2words' French ordinals are wrong where the cardinal ends in a plural s: quatre-vingts, cents.
BELOW_HUNDRED = tuple(n for n in range(1, 100) if n != 80)


@dataclass(frozen=True)
class Template:
    """A way of saying something with slots in it, in every language it knows.

    Attributes:
      name: what it is called; unique.
      slots: the values that each slot may take.
      phrase: `phrase(locale, *values) -> str`.
      allowed: `allowed(*values) -> bool`, whether a combination makes sense; None: all do.
      languages: the languages that it is known in; None means all of them.
    """

    name: str
    slots: tuple[Sequence, ...]
    phrase: Callable[..., str]
    allowed: Callable[..., bool] | None = None
    languages: frozenset[str] | None = None

    @property
    def count(self) -> int:
        """How many combinations of values there are."""
        return math.prod(len(slot) for slot in self.slots)

    def values(self, index: int) -> tuple | None:
        """The combination numbered `index`, or None where it is not allowed."""
        chosen = []
        for slot in reversed(self.slots):
            index, position = divmod(index, len(slot))
            chosen.append(slot[position])
        values = tuple(reversed(chosen))
        return values if self.allowed is None or self.allowed(*values) else None


def _is_date(year: int, month: int, day: int, *_) -> bool:
    return day <= calendar.monthrange(year, month)[1]


def _distinct(*values) -> bool:
    return len(set(values)) == len(values)


def _styled_date(style: str) -> Callable[..., str]:
    return lambda locale, *date: dates.format_date(datetime.date(*date), style, locale)


def _date_by_skeleton(skeleton: str) -> Callable[..., str]:
    return lambda locale, *date: dates.format_skeleton(
        skeleton, datetime.date(*date), locale=locale
    )


def _month(locale: Locale, year: int, month: int) -> str:
    return dates.format_skeleton("yMMMM", datetime.date(year, month, 1), locale=locale)


def _time(locale: Locale, hour: int, minute: int) -> str:
    return dates.format_time(datetime.time(hour, minute), "short", locale=locale)


def _date_and_time(locale: Locale, year: int, month: int, day: int, *time: int) -> str:
    pattern = str(dates.get_datetime_format("full", locale))
    date = dates.format_date(datetime.date(year, month, day), "full", locale)
    return pattern.format(_time(locale, *time), date)


def _interval(locale: Locale, year: int, month: int, day: int, span: int) -> str:
    start = datetime.date(year, month, day)
    return dates.format_interval(start, start + datetime.timedelta(span), "yMMMd", locale=locale)


def _relative(locale: Locale, count: int, period: Period, direction: int) -> str:
    delta = datetime.timedelta(seconds=direction * count * SECONDS[period])
    return dates.format_timedelta(
        delta, granularity=period, threshold=math.inf, add_direction=True, locale=locale
    )


def _either(say: Callable[..., str], slots: int) -> Callable[..., str]:
    return lambda locale, *values: lists.format_list(
        [say(locale, *values[:slots]), say(locale, *values[slots:])], "or", locale
    )


def _all_of(say: Callable[..., str], slots: int) -> Callable[..., str]:
    return lambda locale, *values: lists.format_list(
        [say(locale, *values[at : at + slots]) for at in range(0, len(values), slots)],
        locale=locale,
    )


def _quantity(locale: Locale, number: float, unit: str) -> str:
    return units.format_unit(number, unit, locale=locale)


def _rate(locale: Locale, number: float, unit: str, period: str) -> str:
    phrase = units.format_compound_unit(number, unit, denominator_unit=period, locale=locale)
    assert phrase is not None, f"Babel knows no {unit} per {period} in {locale}"
    return phrase


def _whole(*digits: int) -> int:
    """The number whose last two digits are the last argument, and each before it one digit."""
    *leading, rest = digits
    return int("".join(map(str, leading)) + f"{rest:02}")


def _price(style: Literal["name", "standard"]) -> Callable[..., str]:
    return lambda locale, thousands, hundreds, rest, cents, currency: numbers.format_currency(
        _whole(thousands, hundreds, rest) + cents / 100,
        currency,
        format_type=style,
        locale=locale,
    )


def _territory(locale: Locale, code: str) -> str:
    return locale.territories[code]


def _language(locale: Locale, code: str) -> str:
    return locale.languages[code]


def _cardinal(locale: Locale, *digits: int) -> str:
    return num2words(_whole(*digits), lang=locale.language)


def _ordinal(locale: Locale, *digits: int) -> str:
    return num2words(_whole(*digits), lang=locale.language, to="ordinal")


_WORDS = frozenset({"en", "fr", "de"})

TEMPLATES = (
    Template("date and time", (*DATES, HOURS, MINUTES), _date_and_time, _is_date),
    Template("rate", (NUMBERS, SPEEDS, ("second", "minute", "hour", "day")), _rate),
    Template("three territories", (TERRITORIES,) * 3, _all_of(_territory, 1), _distinct),
    Template("interval", (*DATES, SPANS), _interval, _is_date),
    Template("cardinal", THOUSANDS, _cardinal, languages=_WORDS),
    Template("date", DATES, _styled_date("long"), _is_date),
    Template("date with weekday", DATES, _styled_date("full"), _is_date),
    Template("abbreviated date", DATES, _date_by_skeleton("yMMMEd"), _is_date),
    Template("date in digits", DATES, _styled_date("short"), _is_date),
    Template("month", (YEARS, MONTHS), _month),
    Template("time", (HOURS, MINUTES), _time),
    Template("relative time", (COUNTS, PERIODS, (FORWARD, BACKWARD)), _relative),
    Template(
        "either of two relative times",
        (COUNTS, PERIODS, (FORWARD, BACKWARD)) * 2,
        _either(_relative, 3),
    ),
    Template("quantity", (NUMBERS, UNITS), _quantity),
    Template("three quantities", (NUMBERS, UNITS) * 3, _all_of(_quantity, 2)),
    Template("price in words", (*THOUSANDS, CENTS, CURRENCIES), _price("name")),
    Template("price", (*THOUSANDS, CENTS, CURRENCIES), _price("standard")),
    Template("two territories", (TERRITORIES,) * 2, _either(_territory, 1), _distinct),
    Template("three languages", (LANGUAGES,) * 3, _all_of(_language, 1), _distinct),
    Template("ordinal", (DIGITS, BELOW_HUNDRED), _ordinal, languages=_WORDS),
    Template("two cardinals", (DIGITS, HUNDRED) * 2, _either(_cardinal, 2), languages=_WORDS),
)
