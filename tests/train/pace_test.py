import time

import numpy as np

from attn_jax.train.pace import Pace


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
