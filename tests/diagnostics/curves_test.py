import numpy as np
import pytest

from attn_jax.diagnostics.curves import Fit, fits, sweep
from attn_jax.diagnostics.number_maps import number_maps

X = np.linspace(0, 1, 5)


def test_a_fit_shows_what_was_observed_the_truth_and_each_prediction():
    fit = Fit(X, {"$a$": X + 1, "b": X - 1}, truth=X, observed=([0.2, 0.3], [1.0, 2.0]), title="$x")
    figure = fits([fit], "$all", x="depth", y="height")
    (axes,) = figure.axes
    observed, truth, *lines = axes.get_lines()
    np.testing.assert_array_equal(observed.get_xydata(), [[0.2, 1], [0.3, 2]])
    np.testing.assert_array_equal(truth.get_ydata(), X)
    np.testing.assert_array_equal([line.get_ydata() for line in lines], [X + 1, X - 1])
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 2
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("depth", "height")
    figure.canvas.draw()  # a `$` is no mathematics


@pytest.mark.parametrize("panels", [1, 2, 3, 4, 5])
def test_panels_share_their_scales_and_each_column_is_labelled(panels):
    figure = fits([Fit(X, {"a": n * X}) for n in range(panels)])
    assert len(figure.axes) == panels
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    figure.canvas.draw()


def test_a_sweep_marks_the_least_error_of_each_line():
    values = np.geomspace(0.01, 10, 7)
    errors = {"one": (np.log(values) - 1) ** 2 + 1, "other": values + 1 / values}
    figure = sweep(values, errors, paths={"steps": ([1.0, 0.5], [2.0, 1.5])})
    one, best, _, other_best, steps = figure.axes[0].get_lines()
    np.testing.assert_array_equal(one.get_xdata(), values)
    assert best.get_xydata().tolist() == [[values[5], errors["one"][5]]]
    assert other_best.get_xydata().tolist() == [[values[4], errors["other"][4]]]
    assert best.get_zorder() > steps.get_zorder()
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert texts == ["one: least at 3.16", "other: least at 1", "steps"]
    figure.canvas.draw()


def test_a_map_puts_each_weight_where_its_numbers_are():
    weights = np.arange(6.0).reshape(2, 3) / 10
    figure = number_maps({"a": weights, "b": weights / 2}, [1, 2], [0, 1, 4])
    first, second, bar = figure.axes
    (mesh,) = first.collections
    np.testing.assert_allclose(mesh.get_array(), weights, rtol=1e-6)
    assert mesh.get_clim() == second.collections[0].get_clim() == (0, 0.5)
    corners = mesh.get_coordinates()
    np.testing.assert_array_equal(corners[0, :, 0], [-0.5, 0.5, 2.5, 5.5])
    np.testing.assert_array_equal(corners[:, 0, 1], [0.5, 1.5, 2.5])
    assert first.yaxis_inverted()
    assert bar.get_ylabel() == "attention weight"
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: fits([]), "at least one fit"),
        (lambda: fits([Fit(X, {"short": X[1:]})]), "expected short at each of 5 places"),
        (lambda: sweep(X + 1, {"a": X}), "positive errors of a"),
        (lambda: sweep(X + 1, {"a": X[1:] + 1}), "one for each of 5 values"),
        (lambda: number_maps({}, [0], [0]), "got none"),
        (
            lambda: number_maps({"a": np.eye(2)}, [0, 1], [0, 1, 2]),
            r"shape \(2, 3\); got a \(2, 2\)",
        ),
        (lambda: number_maps({"a": np.full((1, 1), np.nan)}, [0], [0]), "finite weights"),
        (lambda: number_maps({"a": np.eye(2)}, [0, 1], [1, 0]), "keys that do not decrease"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, says):
    with pytest.raises(ValueError, match=says):
        draw()
