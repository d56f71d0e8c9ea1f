"""Long contexts: what eight mechanisms cost to 65,536 tokens, and how far back they find an answer.

What it shows: dense attention takes memory by the square of the length, and no other does; a pattern
saves time where it leaves whole tiles of the score matrix empty; a layer finds an answer exactly where
its mask may look, and two layers where two steps of it lead; and random features estimate a softmax well
only where scores are small, orthogonal ones then better.

    python -m experiments.long_context --config=configs/long_context/default.py

Result to expect (152 s from start to finish, 151 s of CPU time, on two cores of an AMD EPYC, other work
running on them; read the seconds by their ratios). One head of depth 16, a window of 128 to each side,
32 features; forward and backward, seconds and MiB of temporaries:

                          4,096 tokens         16,384             65,536
    dense                 0.47      256        –        4,096     –        65,536    planned, not run
    blockwise             0.11      1.3        1.4      2.2       23       9.5
    local window          0.018     2.1        0.081    5.2       0.33     21
    Longformer            0.028     2.2        0.12     5.3       0.53     21
    BigBird               0.044     2.1        0.21     6.1       0.97     25
    strided               0.057     2.1        0.88     5.2       14       21
    Linear Transformer    0.0013    1.4        0.0043   5.4       0.023    22
    Performer             0.0022    3.3        0.0091   13        0.064    53

- Blockwise is exact, and takes the square of the length in time alone.
- A stride of 128 leaves no tile of 256 × 256 before the query empty: at 16,384 tokens strided visits the
  2,080 of 4,096 tiles that causal() does, local 190, Longformer 314, BigBird 522.

Which of 4 classes a marked token among 63 says, for a question so many tokens after it; a window of 4,
means over seeds 0, 1, 2, guessing finds 0.25:

                          one layer, 3     7       20      41      62      two layers
    dense, linear, Performer    1.00    1.00    1.00    1.00    1.00    1.00 everywhere
    local window                1.00    0.25    0.27    0.26    0.28    0.98 at 7, 0.26 to 0.28 beyond
    Longformer                  1.00    0.22    0.28    0.27    0.29    1.00 everywhere
    BigBird                     1.00    1.00    0.29    1.00    1.00    0.99 at 20, else 1.00
    strided                     1.00    0.21    1.00    0.21    0.22    1.00 everywhere

It is one marked token: how many keys a sum of features can tell apart is another question.

Error of the Performer's outputs ÷ their size, depth 64; independent directions, then orthogonal ones:

    entries of q and k    16 features     64              256               1,024
    0.25                  0.25, 0.25      0.132, 0.109    0.066, 0.055      0.034, 0.028
    0.5                   1.00, 1.02      0.66, 0.64      0.41, 0.40        0.24, 0.23
    1                     2.2, 2.3        2.0, 2.1        1.8, 1.9          1.6, 1.6
"""

from experiments.long_context.config import Config


def get_config() -> Config:
    return Config()
