"""Recall: the bottleneck of one vector, and the long path to what stands far away.

What it shows: a recurrent decoder that is given one vector of the source copies what is short, and of
what is long the less the longer it is; and it cannot look up four pairs of a key and a value once the
way to them is long, though there is no more to be kept. Bahdanau's decoder, the same but for its
attention, and a Transformer look at the source where it stands, and do both. One layer on either side,
all of width 64, trained anew on each length.

    python -m experiments.recall --config=configs/recall/default.py

Result to expect (seed 0; 3 min 31 s of CPU time on an AMD EPYC that was doing much other work; accuracy
on new sequences after 500 steps, and in brackets the steps to an accuracy of 0.95):

    symbols to copy, of 8        4            8            16           32
    fixed vector                 1.00 (124)   0.96 (410)   0.71         0.47
    attention                    1.00 (43)    1.00 (84)    1.00 (160)   1.00 (236)
    Transformer                  1.00 (103)   1.00 (121)   1.00 (185)   1.00 (235)

    fillers on either side       0            8            32
    of 4 pairs to look up
    fixed vector                 1.00 (121)   0.89         0.41
    attention                    1.00 (61)    1.00 (100)   1.00 (124)
    Transformer                  1.00 (68)    1.00 (141)   1.00 (206)

- Seeds 1 and 2, at the ends: the fixed vector 0.50 and 0.47 of 32 symbols, 0.73 and 0.61 of the pairs
  amid 32 fillers; attention 1.00; the Transformer 0.84 and 1.00 of 32 symbols, 1.00 of the pairs.
- Chance is 0.13; who knows the four values, and not whose each is, has 0.34.
- The encoder reads both ways, so that fillers must stand on both sides to make the way long.
- A pair is one token. Of pairs of two tokens each value must first be bound to the key before it. In a
  trial with 16 symbols Bahdanau's encoder did so within 75 steps, and 1,500 steps did not teach it to a
  Transformer of one layer, with sinusoids, rotary positions, T5's or ALiBi, or of two with T5's.
- Times per step are printed and drawn; those that were taken here, on busy cores, say nothing.
"""

from experiments.recall.config import Config


def get_config() -> Config:
    return Config()
