import time

import numpy as np
import pytest

from attn_jax.train.pace import Pace
from attn_jax.train.peaks import peak_flops


def test_compiling_and_pauses_are_not_counted():
    pace = Pace()
    metrics = {"sums": {"count": 10}}
    for rows in (2, 2, 3):
        pace.go()
        with pace.step({"index": np.zeros(rows)}):
            time.sleep(0.05 if rows == 3 or not pace.compile_seconds else 0.01)
        pace.count(metrics)
        pace.pause()
        time.sleep(0.02)
    assert pace.compile_seconds > 0.1
    assert 0.01 < pace.total.seconds < 0.05
    assert (pace.total.steps, pace.total.tokens) == (3, 30)
    assert pace.lap()["shapes"] == 2
    assert pace.lap()["tokens_per_second"] == 0


def test_utilisation_is_six_operations_per_parameter_and_token_of_the_peak():
    pace = Pace(parameters=1000, peak=2e6)
    pace.go()
    with pace.step({"index": np.zeros(2)}):
        pass
    pace.count({"sums": {"count": 100}})
    pace.pause()
    lap = pace.lap()
    assert lap["model_flop_utilisation"] == pytest.approx(6e3 * lap["tokens_per_second"] / 2e6)


@pytest.mark.parametrize(
    ("kind", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("Tesla V100-SXM2-16GB", 125e12),
        ("NVIDIA L40S", None),  # not an L4
        ("TPU v5p", 459e12),
        ("Radeon", None),
    ],
)
def test_a_peak_is_known_or_left_out(kind, peak):
    assert peak_flops(kind) == peak
