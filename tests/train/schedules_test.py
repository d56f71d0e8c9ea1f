import numpy as np
import pytest

from attn_jax.train import schedules


@pytest.mark.parametrize(
    "rate",
    [
        schedules.inverse_square_root(2.0, 10),
        schedules.cosine(2.0, 10, 50),
        schedules.linear(2.0, 10, 50),
        schedules.constant(2.0, 10),
    ],
)
def test_warm_up_is_linear_and_reaches_the_peak_at_its_last_update(rate):
    rates = np.array([rate(n) for n in range(200)])
    np.testing.assert_allclose(rates[:10], 0.2 * np.arange(1, 11), rtol=1e-6)
    assert rates.max() == rates[9]
    assert (np.diff(rates[9:]) <= 0).all()


def test_inverse_square_root_is_that_of_the_paper():
    width, warmup = 512, 4000
    rate = schedules.inverse_square_root((width * warmup) ** -0.5, warmup)
    for n in (1, 100, 4000, 50_000):
        expected = width**-0.5 * min(n**-0.5, n * warmup**-1.5)
        np.testing.assert_allclose(rate(n - 1), expected, rtol=1e-6)


@pytest.mark.parametrize("schedule", [schedules.cosine, schedules.linear])
def test_a_decay_ends_at_its_floor_and_stays_there(schedule):
    rate = schedule(1.0, 0, 20, floor=0.25)
    np.testing.assert_allclose([rate(19), rate(20), rate(500)], 0.25, rtol=1e-6)
    assert rate(0) < 1.0


@pytest.mark.parametrize("schedule", [schedules.cosine, schedules.linear])
def test_a_decay_needs_updates_after_the_warm_up(schedule):
    with pytest.raises(ValueError, match="warmup < steps"):
        schedule(1.0, 20, 20)


def test_inverse_square_root_needs_a_warm_up():
    with pytest.raises(ValueError, match="warmup of at least 1"):
        schedules.inverse_square_root(1.0, 0)
