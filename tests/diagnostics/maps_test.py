"""Pictures of heads, of lines and of masks."""

import io

import numpy as np
import pytest
from matplotlib.colors import to_hex

from attn_jax import masks
from attn_jax.diagnostics.curves import Fit, fits
from attn_jax.diagnostics.dark import INK, PAPER, darkened
from attn_jax.diagnostics.head_map import head_map
from attn_jax.diagnostics.mask_map import mask_map, tile_kinds
from attn_jax.diagnostics.plots import heat_map
from attn_jax.diagnostics.token_lines import token_lines


def _drawn(figure):
    figure.savefig(io.BytesIO(), format="png", dpi=40)  # a glyph that is missing would warn
    return figure


def test_each_head_has_its_number_and_verdicts_a_frame():
    values = {"0.$x$": [0.5, np.nan], "1": [1.0, 0.25, 2.0]}
    figure = _drawn(head_map(values, "$all", name="nats", marked=[("1", 2), ("elsewhere", 0)]))
    axes, bar = figure.axes
    np.testing.assert_array_equal(
        axes.images[0].get_array().filled(np.nan), [[0.5, np.nan, np.nan], [1, 0.25, 2]]
    )
    assert [text.get_text() for text in axes.texts] == ["0.5", "1", "0.25", "2"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0.$x$", "1"]
    (frame,) = axes.patches
    assert (frame.get_x(), frame.get_y()) == (1.5, 0.5)
    assert bar.get_ylabel() == "nats"


@pytest.mark.parametrize("values", [{}, {"0": []}, {"0": [[1.0]]}])
def test_a_map_of_no_heads_is_refused(values):
    with pytest.raises(ValueError, match="at least one layer"):
        head_map(values)


def test_lines_are_as_dark_as_their_weights():
    weights = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    figure = _drawn(token_lines(weights, ["$a$", "b\n"], ["x", "y", "مرحبا"], "$t"))
    (lines,) = figure.axes[0].collections
    assert [s.tolist() for s in lines.get_segments()] == [
        [[0, 0], [1, 0]],
        [[0, 0], [1, 1]],
        [[0, 1], [1, 2]],
    ]
    assert list(lines.get_alpha()) == [0.5, 0.5, 1.0]
    assert [text.get_text() for text in figure.axes[0].texts][:2] == ["$a$", "b\\n"]
    (one,) = token_lines(weights, ["a", "b"], ["x", "y", "z"], query=1).axes[0].collections
    assert len(one.get_segments()) == 1


def test_lines_of_what_does_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"2 queries and 1 keys.*\(1, 2\)"):
        token_lines(np.ones((1, 2)), ["a", "b"], ["x"])
    with pytest.raises(ValueError, match="from 0 up"):
        token_lines([[np.nan]], ["a"], ["x"])


MASKS = [
    masks.causal(),
    masks.window(3, 1),
    masks.causal() & (masks.window(5, 0) | masks.stride(4)),
    ~masks.causal(),
    masks.everything(),
]


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.parametrize(("t", "s", "tile"), [(12, 12, 4), (10, 13, 4)])
def test_kinds_of_tiles_promise_nothing_that_entries_break(mask, t, s, tile):
    kinds, entries = tile_kinds(mask, t, s, tile), np.asarray(mask.dense(t, s))
    entries = np.broadcast_to(entries, (t, s))
    for i, j in np.ndindex(kinds.shape):
        part = entries[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile]
        assert part.all() or kinds[i, j] != 2
        assert not part.any() or kinds[i, j] != 0


def test_a_mask_is_drawn_with_its_tiles_counted():
    figure = _drawn(mask_map(masks.causal(), 12, tile=4))
    (axes,) = figure.axes
    picture = np.asarray(axes.images[0].get_array())
    assert len({tuple(x) for x in picture.reshape(-1, 3)}) == 4  # hidden, partial twice, full
    assert [x.get_text() for x in figure.legends[0].get_texts()] == [
        *("3 skipped", "3 partial", "3 full")
    ]
    assert axes.get_title() == "causal()"
    with pytest.raises(ValueError, match="one batch row"):
        mask_map(masks.valid(np.ones((2, 4), bool)), 4)
    with pytest.raises(ValueError, match="tile of at least 1"):
        mask_map(masks.causal(), 4, tile=0)


def test_in_the_dark_writing_is_light_and_data_keep_their_colours():
    figure = fits([Fit([0, 1], {"a": [0, 1]}, truth=[1, 2])], "title")
    truth, line = figure.axes[0].get_lines()
    before = line.get_color()
    _drawn(darkened(figure))
    assert to_hex(figure.get_facecolor()) == PAPER
    assert (truth.get_color(), line.get_color()) == (INK, before)
    assert figure._suptitle.get_color() == INK
    labels = darkened(heat_map([[1.0]], ["a"], ["b"])).axes[0].get_yticklabels()
    assert [to_hex(text.get_color()) for text in labels] == [INK]
