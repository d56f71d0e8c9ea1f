"""Scoring: why √d, what saturates, and what additive scores cost and bring.

What it shows: scores of random queries and keys have variance d unless they are divided by √d, and the
softmax after them then has little slope left; one score 30 above the others leaves a slope of 1e-12;
initialisers that keep the variance of projected queries at 1 keep that of scores at 1. And a task, to
find a key again by a rotated, noisy copy of it: additive scores fail it altogether, because tanh is odd,
and with a bias they are the best at it, and the dearest.

    python -m experiments.scoring --config=configs/scoring/default.py

Result to expect (means over seeds 0, 1, 2; 95 s of CPU time on an AMD EPYC that was doing other work):

    d of queries and keys        4      64    1,024   4,096
    dot: variance of scores      3.9    64.8  1,041   4,042
         slope of the softmax    0.26   0.21  0.056   0.037
    scaled: variance, slope      1      1     1       1        and 0.18 at every depth

    initialiser of projections   variance of scores   gradient of W_q ÷ that of W_v
    Xavier, LeCun, orthogonal    0.99                 0.94
    He                           3.9                  1.4
    normal, 0.02                 0.041                0.21    width 512: no head chooses yet
    normal, 1                    258,000              20      every head has chosen, at random

    accuracy after 300 steps     d = 8    d = 32   time ÷ scaled dot (forward and backward, 256 × 256)
    dot, scaled dot              0.69     1.00     1
    additive (a = 4 d)           0.03     0.03     7 and 16
    additive, with bias          0.94     1.00     7 and 21

Times were taken on busy cores and are rough. What √d changes in the task is its first steps: at d = 32
the loss begins at 12 nats instead of 4.
"""

from experiments.scoring.config import Config


def get_config() -> Config:
    return Config()
