import itertools
import time
import tracemalloc
from collections import Counter

import pytest
from babel import Locale

from attn_jax.data.phrase_templates import TEMPLATES
from attn_jax.data.phrases import LARGEST, LOCALES, combinations, phrases, split_of, templates_of

PAIRS = ("en-fr", "en-de", "en-zh")


@pytest.fixture(scope="module")
def corpora():
    return {pair: phrases(pair, size=12_000, seed=1, held_out=500) for pair in PAIRS}


def _splits(corpus):
    return corpus.train, corpus.validation, corpus.test


def _say(language, name, *values):
    (template,) = (t for t in TEMPLATES if t.name == name)
    return template.phrase(Locale.parse(LOCALES[language]), *values)


@pytest.mark.parametrize(
    ("name", "values", "en", "fr", "de", "zh"),
    [
        (
            "date with weekday",
            (2021, 3, 3),
            "Wednesday, March 3, 2021",
            "mercredi 3 mars 2021",
            "Mittwoch, 3. März 2021",
            "2021年3月3日星期三",
        ),
        ("date in digits", (2021, 3, 4), "3/4/21", "04/03/2021", "04.03.21", "2021/3/4"),
        ("time", (15, 7), "3:07\u202fPM", "15:07", "15:07", "15:07"),
        ("relative time", (5, "day", -1), "5 days ago", "il y a 5 jours", "vor 5 Tagen", "5天前"),
        (
            "quantity",
            (1.5, "kilogram"),
            "1.5 kilograms",
            "1,5\xa0kilogramme",
            "1,5 Kilogramm",
            "1.5千克",
        ),
        (
            "rate",
            (12, "kilometer", "hour"),
            "12 kilometers per hour",
            "12\xa0kilomètres par heure",
            "12 Kilometer pro Stunde",
            "每小时12公里",
        ),
        (
            "price",
            (1, 2, 34, 50, "EUR"),
            "€1,234.50",
            "1\u202f234,50\xa0€",
            "1.234,50\xa0€",
            "€1,234.50",
        ),
        (
            "three territories",
            ("DE", "GB", "CN"),
            "Germany, United Kingdom, and China",
            "Allemagne, Royaume-Uni et Chine",
            "Deutschland, Vereinigtes Königreich und China",
            "德国、英国和中国",
        ),
    ],
)
def test_phrases_are_those_of_the_cldr(name, values, en, fr, de, zh):
    assert [_say(language, name, *values) for language in LOCALES] == [en, fr, de, zh]


def test_number_words_are_those_of_num2words():
    assert _say("en", "cardinal", 1, 2, 97) == "one thousand, two hundred and ninety-seven"
    assert _say("fr", "cardinal", 1, 2, 97) == "mille deux cent quatre-vingt-dix-sept"
    assert _say("de", "ordinal", 2, 5) == "zweihundertfünfte"
    assert _say("fr", "two cardinals", 0, 0, 2, 0) == "zéro ou deux cents"


def test_chinese_has_no_number_words():
    assert {t.name for t in TEMPLATES} - {t.name for t in templates_of("en", "zh")} == {
        "cardinal",
        "ordinal",
        "two cardinals",
    }
    assert templates_of("en", "fr") == templates_of("de", "en") == TEMPLATES


@pytest.mark.parametrize("pair", PAIRS)
def test_no_source_has_two_targets_and_no_string_is_held_out_and_seen(corpora, pair):
    corpus = corpora[pair]
    assert [len(split) for split in _splits(corpus)] == [12_000, 500, 500]
    for side in ("source", "target"):
        strings = [text for split in _splits(corpus) for text in getattr(split, side)]
        assert len(set(strings)) == len(strings) == 13_000
        assert all(
            text and text == text.strip() and text.splitlines() == [text] for text in strings
        )


@pytest.mark.parametrize("pair", [f"{a}-{b}" for a, b in itertools.permutations(LOCALES, 2)])
def test_templates_say_different_things_with_different_values(pair):
    source, target = pair.split("-")
    for language in (source, target):
        locale = Locale.parse(LOCALES[language])
        drawn = itertools.islice(combinations(templates_of(source, target), "train", 3), 3_000)
        said = Counter(template.phrase(locale, *values) for template, values in drawn)
        assert said.most_common(1)[0][1] == 1


def test_held_out_combinations_are_unseen_and_every_value_in_them_is_seen():
    for languages in (("en", "fr"), ("en", "zh")):
        templates = templates_of(*languages)
        seen = set(itertools.islice(combinations(templates, "train", 0), 20_000))
        values_seen = {
            (template.name, slot, value)
            for template, values in seen
            for slot, value in enumerate(values)
        }
        for split in ("validation", "test"):
            for template, values in itertools.islice(combinations(templates, split, 0), 1_000):
                assert (template, values) not in seen
                for slot, value in enumerate(values):
                    assert (template.name, slot, value) in values_seen


def test_a_combination_is_held_out_for_every_seed_or_for_none():
    templates = templates_of("en", "fr")
    tests = [set(itertools.islice(combinations(templates, "test", s), 2_000)) for s in range(3)]
    trains = [set(itertools.islice(combinations(templates, "train", s), 9_000)) for s in range(3)]
    for test, train in itertools.product(tests, trains):
        assert not test & train
    assert tests[0] != tests[1]


def test_combinations_come_once_each_and_all_of_them_in_some_split():
    (template,) = (t for t in TEMPLATES if t.name == "month")
    drawn = [list(combinations((template,), s, 7)) for s in ("test", "validation", "train")]
    everything = list(itertools.chain(*drawn))
    assert len(everything) == len(set(everything)) == template.count
    share = Counter(split_of(template, index) for index in range(template.count))
    assert [share[s] for s in ("test", "validation", "train")] == [len(split) for split in drawn]
    assert share["train"] / template.count == pytest.approx(14 / 16, abs=0.03)


def test_combinations_that_make_no_sense_are_not_drawn():
    templates = {template.name: template for template in TEMPLATES}
    date, places = templates["date"], templates["two territories"]
    assert date.values(0) == (1980, 1, 1)
    assert date.values(30 + 29) == (1980, 2, 29)
    assert date.values(30 + 30) is None
    assert date.values(date.count - 1) == (2049, 12, 31)
    assert places.values(0) is None
    assert places.values(1) == ("FR", "DE")
    drawn = list(combinations((places,), "train", 0))
    assert all(first != second for first, second in (values for _, values in drawn))


def test_there_are_more_phrases_than_the_largest_corpus_needs():
    for pair in PAIRS:
        assert sum(t.count for t in templates_of(*pair.split("-"))) > 2 * LARGEST


def test_held_out_phrases_do_not_depend_on_the_size_and_seeds_differ():
    small, large = (phrases("en-fr", size=size, held_out=50) for size in (10, 300))
    assert (small.test, small.validation) == (large.test, large.validation)
    assert large.train.source[:10] == small.train.source
    assert phrases("en-fr", size=10, seed=1, held_out=50).test != small.test


def test_the_same_draw_on_every_python():
    # Only what is drawn, not how a release of the CLDR says it.
    drawn = itertools.islice(combinations(templates_of("en", "fr"), "test", 0), 100)
    assert [values for template, values in drawn if template.name == "interval"] == [
        (2017, 11, 19, 56),
        (2030, 3, 12, 30),
        (2019, 9, 5, 19),
        (2032, 9, 5, 60),
        (2023, 12, 26, 33),
    ]


def test_every_template_is_said_about_equally_often():
    drawn = itertools.islice(combinations(templates_of("en", "fr"), "train", 0), 20_000)
    counts = Counter(template.name for template, _ in drawn)
    assert len(counts) == len(TEMPLATES)
    assert min(counts.values()) > 500
    assert max(counts.values()) < 1_500


@pytest.mark.slow
def test_a_corpus_of_thirty_thousand_takes_seconds_and_megabytes():
    start = time.process_time()
    phrases("en-de", size=30_000)
    assert time.process_time() - start < 20  # 2 s on an idle core
    tracemalloc.start()
    phrases("en-zh", size=2_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20


@pytest.mark.parametrize("pair", ["en", "en-en", "en-es", "", "en-fr-de", "fr_en"])
def test_other_pairs_are_refused_with_the_known_languages(pair):
    with pytest.raises(ValueError, match="en, fr, de, zh, as in 'en-fr'"):
        phrases(pair)


def test_sizes_out_of_range_are_refused():
    with pytest.raises(ValueError, match="size to be 1 to 10,000,000, not 10,000,001"):
        phrases(size=LARGEST + 1)
    with pytest.raises(ValueError, match="held_out to be 1 to 100,000, not 0"):
        phrases(held_out=0)
    with pytest.raises(TypeError):
        phrases(size=10.5)
