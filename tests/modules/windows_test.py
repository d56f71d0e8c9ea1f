"""Windows: cutting and joining are inverse, and a mask never joins what was not near."""

import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.modules.windows import Windows

CASES = [
    (5, 7, 3, 1),
    *(pytest.param(c, marks=pytest.mark.slow) for c in [(4, 6, 2, 0), (2, 3, 4, 0)]),
]


@pytest.mark.parametrize("case", CASES)
def test_what_is_cut_can_be_joined(case):
    windows = Windows(*case)
    x = np.random.default_rng(0).normal(size=(2, *case[:2], 3)).astype(np.float32)
    cut = windows.cut(jnp.asarray(x))
    rows, columns = windows.padded
    assert cut.shape == (2, rows * columns // case[2] ** 2, case[2] ** 2, 3)
    np.testing.assert_array_equal(windows.join(cut), x)


@pytest.mark.parametrize("case", CASES)
def test_cells_see_each_other_where_a_window_of_the_unrolled_image_holds_both(case):
    windows = Windows(*case)
    rows, columns = windows.padded
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), -1)
    whole = Windows(rows, columns, *case[2:])
    y, x = np.moveaxis(np.asarray(whole.cut(jnp.asarray(places))), -1, 0)  # w t each
    near = [np.abs(n[:, :, None] - n[:, None]) < windows.window for n in (y, x)]
    allowed = np.broadcast_to(
        windows.mask().dense(*[windows.window**2] * 2), (len(y), 1, *[windows.window**2] * 2)
    )[:, 0]
    np.testing.assert_array_equal(allowed, near[0] & near[1])
