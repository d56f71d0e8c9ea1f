import numpy as np
import pytest

from attn_jax.data.noisy_curve import curve, observe


def test_the_curve_is_its_formula_at_every_speed_and_depth():
    x = np.array([[0.5, 2.0], [3.0, 0.0]])

    def f(x):
        return 2.333 * np.sin(x) + x**0.666

    expected = np.stack([(f(r * x[:, 0]) + f(r * x[:, 1])) / np.sqrt(2) for r in (1, 3)], axis=1)
    np.testing.assert_allclose(curve(x, (1, 3)), expected)
    np.testing.assert_allclose(curve(x[:, :1]), f(x[:, :1]))


def test_observations_are_uniform_sorted_and_noisy_by_half():
    x, y = observe(4_000, seed=0)
    assert x.dtype == y.dtype == np.float32
    assert (np.diff(x[:, 0]) >= 0).all()
    np.testing.assert_allclose(np.quantile(x, [0.25, 0.5, 0.75]), [1.25, 2.5, 3.75], atol=0.1)
    noise = y[:, 0] - curve(x)
    assert abs(noise.mean()) < 0.03
    assert noise.std() == pytest.approx(0.5, rel=0.05)
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.05


def test_a_seed_fixes_the_points_whatever_is_observed_there():
    x, y = observe(20, seed=1)
    again, more = observe(20, seed=1, speeds=(1, 2), times=3, noise=0.0)
    np.testing.assert_array_equal(x, again)
    assert more.shape == (20, 2, 3)
    np.testing.assert_allclose(more, np.repeat(curve(x, (1, 2))[..., None], 3, 2), rtol=1e-4)
    assert (observe(20, seed=2).y != y).all()


def test_the_curve_varies_as_much_in_any_depth():
    spread = [observe(3_000, seed=0, depth=depth, noise=0.0).y.std() for depth in (1, 8)]
    assert spread[1] == pytest.approx(spread[0], rel=0.1)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: curve([1.0, 2.0]), "non-negative x, n d"),
        (lambda: curve([[-1.0]]), "the least -1"),
        (lambda: observe(0, seed=0), "got 0 points"),
        (lambda: observe(5, seed=0, noise=-1.0), "noise -1"),
    ],
)
def test_what_there_is_no_curve_of(ask, says):
    with pytest.raises(ValueError, match=says):
        ask()
