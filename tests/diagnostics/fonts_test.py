import pytest

from attn_jax.diagnostics import fonts


@pytest.fixture
def installed(monkeypatch):
    """Four families with a few characters each."""
    characters = {
        fonts.FIRST: frozenset("abc"),
        "Song": frozenset("一二三"),
        "Hei Sans": frozenset("一二三"),
        "Small": frozenset("四"),
    }
    monkeypatch.setattr(fonts, "_installed", lambda: dict.fromkeys(characters))
    monkeypatch.setattr(fonts, "_characters", characters.__getitem__)


@pytest.mark.parametrize(
    ("text", "families", "lacking"),
    [
        ([], [fonts.FIRST], ""),
        (["abc", ""], [fonts.FIRST], ""),
        (["a一", "二"], [fonts.FIRST, "Hei Sans"], ""),
        (["四一二"], [fonts.FIRST, "Hei Sans", "Small"], ""),
        (["五四"], [fonts.FIRST, "Small"], "五"),
        (["五"], [fonts.FIRST], "五"),
    ],
)
def test_families_are_as_few_as_they_can_and_what_is_left_is_told(
    installed, text, families, lacking
):
    assert fonts.families_for(text) == (families, set(lacking))


def test_matplotlibs_own_font_draws_all_that_pictures_write_themselves():
    assert fonts.families_for([fonts.MISSING, fonts.visible("\xa0"), "…▁"]) == (
        [fonts.FIRST],
        set(),
    )


def test_fonts_that_draw_every_character_alike_are_not_used():
    assert fonts.families_for(["\U000f1234"])[1] == {"\U000f1234"}
    assert not any("last resort" in family.lower() for family in fonts._installed())


def test_a_broken_font_file_is_passed_over(monkeypatch, tmp_path):
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"not a font")
    real = fonts._installed()
    monkeypatch.setattr(fonts, "_installed", lambda: {**real, "Broken": str(broken)})
    assert fonts._characters("Broken") == frozenset()


def test_spaces_and_controls_become_visible():
    assert fonts.visible("a b\xa0c\u3000\n\u2028\ud800é中") == "a b␣c␣\\n\\u2028\\ud800é中"
