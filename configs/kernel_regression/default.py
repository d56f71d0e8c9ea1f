"""Kernel regression: from averaging to attention with one learned number.

What it shows: Nadaraya-Watson regression is attention whose score is the logarithm of a kernel. 150
noisy observations of 2.333 sin x + x^0.666 at uniform x in [0, 5] are predicted by their average, by a
Gaussian kernel of width 1, and by one whose width w was learned by SGD, each observation left out of its
own keys by a mask. Then every kernel at the width that leaving one out chooses, one width per head, and
inputs of more dimensions.

    python -m experiments.kernel_regression --config=configs/kernel_regression/default.py
    python -m experiments.kernel_regression --config=configs/kernel_regression/default.py:large

Result to expect (seed 0; 11 s of one CPU core, most of it compiling). Mean squared errors, of the
observations left out and of the truth at 0, 0.1, …, 4.9; the noise alone is 0.25 of the former:

    average pooling    1.949   1.549     uses 150 points
    Gaussian, w = 1    0.765   0.434           93
    learned, w = 0.188 0.308   0.019           22

- w settles in about ten epochs (1, 0.50, 0.29, 0.20, 0.18, 0.19, …) where the sweep has its least error,
  for seeds 1 and 2 as well (0.185 and 0.187).
- The kernel matters little once its width is right: 0.302 (boxcar) to 0.315 (laplace).
- Heads whose curves run at speeds ¼, ½, 1 and 2 learn 0.36, 0.23, 0.19 and 0.10; none suits all of them.
- In 1, 2, 4 and 8 dimensions the best width is 0.19, 0.32, 0.71 and 1.19, and the error of the truth
  0.017, 0.085, 0.46 and 1.19, of average pooling's 1.5: neighbours have become strangers.

`:large` takes 100,000 observations: leaving each out in turn is 10^10 pairs, evaluated blockwise. SGD
sees 2,000 observations an epoch against all the others, so that w wanders in the flat of the error, and
the sweep leaves out 500. With 20,000 observations, 1,000 of them an epoch and 200 in the sweep, it took
22 s of CPU time, and learned w = 0.08: 0.255 and 0.0014, where the sweep finds 0.05 and 0.0008.
"""

from experiments.command_line import variant
from experiments.kernel_regression.config import Config, Data, Depths, Heads, Learning, Sweep


def get_config(size: str = "small") -> Config:
    if variant(size, ("small", "large")) == "small":
        return Config()
    return Config(
        data=Data(points=100_000),
        learning=Learning(points=2_000),
        sweep=Sweep(low=0.01, widths=41, points=500),
        heads=Heads(speeds=()),
        depths=Depths(depths=()),
    )
