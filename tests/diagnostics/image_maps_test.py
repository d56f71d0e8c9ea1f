"""Rows of images and of what weighs their places."""

import numpy as np
import pytest

from attn_jax.diagnostics.image_maps import image_maps


def test_images_are_on_one_scale_and_a_row_of_weights_on_its_own():
    x = np.linspace(0, 1, 2 * 9).reshape(2, 3, 3)
    figure = image_maps({"digit": x}, {"gate": 5 * x[:, :2, :2]}, names=["a", "b"])
    drawn = [axes.images[0] for axes in figure.axes]
    assert [picture.get_clim() for picture in drawn[:2]] == [(0, 1)] * 2
    for picture in drawn[2:]:
        assert picture.get_clim() == pytest.approx((0, 5 * x[:, :2, :2].max()))
    np.testing.assert_allclose(drawn[3].get_array(), 5 * x[1, :2, :2], rtol=1e-6)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "", ""]
    assert [figure.axes[i].get_ylabel() for i in (0, 2)] == ["digit", "gate"]


@pytest.mark.parametrize("rows", [{}, {"a": np.zeros((2, 3, 3)), "b": np.zeros((1, 3, 3))}])
def test_rows_that_do_not_fit_are_refused(rows):
    with pytest.raises(ValueError, match="rows and names of one length"):
        image_maps(rows)
