import io
import itertools

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex

from attn_jax.diagnostics import fonts
from attn_jax.diagnostics.plots import heat_map, heat_maps, save

ENGLISH = ["▁Wednesday", ",", "▁March", "▁3", ",", "▁2021", "▁$5_0$", "\u202fPM", "</s>"]
CHINESE = ["20", "21", "年", "3月", "3日", "星期三", "</s>"]


def _weights(*shape):
    scores = np.random.default_rng(0).gamma(0.3, size=shape)
    return scores / scores.sum(-1, keepdims=True)


def _rendered(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")  # a glyph that is missing would warn: an error here
    return buffer.getvalue()


def _labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_each_weight_has_its_tokens_beside_it_and_its_colour_on_one_scale():
    weights = _weights(4, 3, 2)
    figure = heat_maps(jnp.asarray(weights, jnp.bfloat16), ["a", "b", "c"], ["x", "y"], "all")
    *maps, bar = figure.axes
    assert len(maps) == 4
    assert bar.get_ylim() == (0, 1)
    for axes, head in zip(maps, weights):
        (picture,) = axes.images
        np.testing.assert_allclose(picture.get_array(), head, rtol=1e-2)
        assert picture.get_clim() == (0, 1)
        assert (_labels(axes.yaxis), _labels(axes.xaxis)) == (["a", "b", "c"], ["x", "y"])
        assert list(axes.get_yticks()) == [0, 1, 2]
    _rendered(figure)


def test_colours_grow_evenly_lighter():
    shades = heat_map([[0.0, 1.0]], ["q"], ["a", "b"]).axes[0].images[0].cmap(np.linspace(0, 1, 64))
    luminance = shades[:, :3] ** 2.2 @ [0.2126, 0.7152, 0.0722]
    lightness = 116 * np.cbrt(luminance) - 16  # of CIE L*a*b*
    steps = np.diff(lightness)
    assert to_hex(shades[0]) != to_hex(shades[-1])
    assert (steps > 0).all()
    assert steps.max() < 3 * steps.mean()


def test_tokens_are_never_read_as_mathematics_or_layout():
    odd = ["$x^2$", "$", "\\frac", "a\nb", "\t", "\x00", "\u200f", "5\xa0m", "a_b^c", "", "%"]
    figure = heat_map(_weights(len(odd), 1), odd, ["$y$"], title="$\\sum$ of\nlines")
    _rendered(figure)
    shown = _labels(figure.axes[0].yaxis)
    assert shown[:4] == ["$x^2$", "$", "\\frac", "a\\nb"]
    assert shown[4:8] == ["\\t", "\\x00", "\\u200f", "5␣m"]
    assert not any(text.get_parse_math() for text in figure.axes[0].yaxis.get_ticklabels())
    assert figure.get_suptitle() == "$\\sum$ of\\nlines"


@pytest.mark.parametrize("tokens", [ENGLISH, CHINESE, ["مرحبا", "שלום", "▁"], ["🙂", "é", "ก็"]])
def test_every_script_is_drawn_without_a_warning(tokens, caplog):
    figure = heat_maps(_weights(2, len(tokens), len(tokens)), tokens, tokens, "".join(tokens))
    _rendered(figure)
    assert not caplog.records


def test_what_no_font_has_is_a_square_and_the_picture_says_so(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: {fonts.FIRST: FIRST_FILE})
    figure = heat_map(_weights(7, 7), CHINESE, CHINESE, title="星期三")
    _rendered(figure)
    assert _labels(figure.axes[0].xaxis) == ["20", "21", "□", "3□", "3□", "□□□", "</s>"]
    assert "no installed font" in figure.get_supxlabel()
    assert heat_map(_weights(1, 1), ["a"], ["b"]).get_supxlabel() == ""


FIRST_FILE = fonts._installed()[fonts.FIRST]


def test_where_a_font_has_them_chinese_characters_are_written():
    families, lacking = fonts.families_for(CHINESE)
    if lacking:
        pytest.skip("no installed font has Chinese characters")
    assert len(families) == 2
    figure = heat_map(_weights(7, 7), CHINESE, CHINESE)
    _rendered(figure)
    assert _labels(figure.axes[0].xaxis) == CHINESE
    assert figure.axes[0].xaxis.get_ticklabels()[0].get_fontfamily() == families


def test_a_hundred_tokens_are_all_written_and_do_not_overlap():
    tokens = [f"▁token{n}" for n in range(100)]
    figure = heat_map(_weights(100, 100), tokens, tokens)
    _rendered(figure)
    axes = figure.axes[0]
    assert _labels(axes.yaxis) == tokens
    boxes = [text.get_window_extent() for text in axes.yaxis.get_ticklabels()]
    assert all(lower.y1 <= upper.y0 + 0.5 for upper, lower in itertools.pairwise(boxes))


def test_long_inputs_stay_of_bounded_size():
    tokens = [f"▁{'long' * n}" for n in range(400)]
    figure = heat_maps(_weights(2, 400, 400), tokens, tokens)
    assert max(figure.get_size_inches()) < 32
    labels = _labels(figure.axes[0].yaxis)
    assert len(labels) <= 120
    assert max(map(len, labels)) == 18


def test_a_long_title_is_folded_into_the_picture():
    title = "Wednesday, March 3, 2021 → mercredi 3 mars 2021; " * 4
    figure = heat_map(_weights(4, 4), list("abcd"), list("efgh"), title)
    _rendered(figure)
    box = (
        figure.texts[0].get_window_extent()
        if figure.texts
        else figure._suptitle.get_window_extent()
    )
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_one_token_under_a_long_title_is_still_drawn():
    figure = heat_maps(np.ones((4, 1, 1)), ["</s>"], ["</s>"], "a sentence of many words " * 5)
    _rendered(figure)  # a warning is an error
    assert figure.axes[0].get_window_extent().width > 10


def test_heads_that_do_not_fill_a_grid_leave_no_empty_axes():
    for heads in (1, 3, 5, 8, 16):
        figure = heat_maps(_weights(heads, 2, 2), ["a", "b"], ["c", "d"])
        assert len(figure.axes) == heads + 1


def test_drawing_touches_no_global_state(tmp_path):
    before = dict(matplotlib.rcParams)
    save(heat_map(_weights(2, 2), ["a", "b"], ["c", "d"]), tmp_path / "map.png")
    assert dict(matplotlib.rcParams) == before
    import matplotlib.pyplot as plt  # only to ask it what it knows of

    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%PDF")]
)
def test_pictures_are_written_whole(tmp_path, suffix, magic):
    path = save(heat_map(_weights(1, 2), ["a"], ["c", "d"]), tmp_path / "new" / f"map.{suffix}")
    assert path.read_bytes().startswith(magic)
    assert [entry.name for entry in path.parent.iterdir()] == [f"map.{suffix}"]


@pytest.mark.parametrize("name", ["map", "map.docx", ".png"])
def test_other_formats_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"the suffixes are .*png"):
        save(heat_map(_weights(1, 1), ["a"], ["c"]), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_weights_that_do_not_fit_the_tokens_are_refused():
    with pytest.raises(ValueError, match=r"1 heads, 2 queries and 3 keys.* \(1, 3, 2\)"):
        heat_map(_weights(3, 2), ["a", "b"], ["x", "y", "z"])
    with pytest.raises(ValueError, match="at least one of each"):
        heat_maps(np.zeros((0, 1, 1)), ["a"], ["b"])
    with pytest.raises(ValueError, match=r"names|3 heads"):
        heat_maps(_weights(2, 1, 1), ["a"], ["b"], names=["1", "2", "3"])
    with pytest.raises(ValueError, match="finite weights; 1 are not"):
        heat_map([[np.nan, 1.0]], ["a"], ["x", "y"])
