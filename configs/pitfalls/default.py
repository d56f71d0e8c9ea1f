"""Pitfalls: five traps of practice, each made visible beside what mends it.

What it shows: a softmax over unscaled scores has no slope to learn by; a model of few examples learns
them by heart unless weights are dropped and decayed; scores rounded to bfloat16 spoil weights by their
size, whatever the weights' own dtype; rematerialisation takes the growth with depth out of a gradient's
memory; and a wrong mask is found by differentiating an untrained model.

    python -m experiments.pitfalls --config=configs/pitfalls/default.py

Result to expect (means over seeds 0, 1, 2; 83 s of CPU time on an AMD EPYC that was doing other work):

    fetching a value by its key, d = 64    after 50 steps    after 150    (squared error)
    dot                                    0.48              0.064
    scaled dot                             0.0068            0.0040
    cosine, τ = 0.1                        0.0031            0.0014

    64 examples, 150 steps     training loss    test loss    its least, after    test accuracy
    neither                    0.0005           2.41         0.62, 22 steps      0.63
    weight decay 1             0.005            1.51         0.61, 25            0.66
    dropout 0.5                0.03             0.86         0.60, 43            0.70
    both                       0.09             0.59         0.56, 74            0.75

    largest score              1         4        15       30        (largest relative error of a weight)
    bfloat16 scores            0.0020    0.0084   0.050    0.11
    scores to 1, raised by it  0.0044    0.017    0.036    0.072
    float32 scores             2e-7      6e-7     2e-6     5e-6      of the same bfloat16 q and k

    a gradient, 256 tokens     2 layers    16 layers    operations
    all kept                   11 MiB      62 MiB       1
    blockwise attention        6.1         30           1.06
    remat, products kept       4.7         13           1.15
    remat                      3.8         4.6          1.27

    mask of layer 2 of 2       leaking pairs of 120    loss on random tokens (log 8 = 2.08 is honest)
    causal()                   0                       2.09
    causal(1)                  15                      0.15
    ~causal()                  120                     0.13
    window(2, 2)               29                      0.17
    prefix_lm(4)               6                       1.78
    window(2, 2) & causal()    0                       2.09

Of remat's time these cores say little: of 16 layers it took 0.55 of that of "all kept", whose memory had
to be fetched while others used the machine too; of 4 layers 1.00. Operations are
the compiler's count.
"""

from experiments.pitfalls.config import Config


def get_config() -> Config:
    return Config()
