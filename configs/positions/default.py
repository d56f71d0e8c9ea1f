"""Positions: six ways to say where a token stands, trained on 64 characters and read up to 1,024.

What it shows: attention by itself does not know where tokens stand (permuted inputs give permuted
outputs, unless a causal mask tells places apart); sinusoids k positions on are a linear map of those
here; and what is added at a place is foreign where no place was trained on, while a penalty by
distance is not. A small GPT over the characters of the Python language reference, the same but for its
positions; and in every range of places all of the held-out text.

    python -m experiments.positions --config=configs/positions/default.py

Result to expect (seed 0, Python 3.12; 114 s of CPU time on an AMD EPYC that was doing other work).
Nats per character at places from 0 to 64, as in training, and beyond:

    positions     0–64   64–128   128–256   256–512   512–1,024
    none          1.96   2.07     2.12      2.16      2.18
    sinusoidal    1.53   2.84     2.98      2.99      3.03
    learned       1.52   no more than the 64 positions that were learned, says the error
    rotary        1.39   1.59     3.21      3.55      3.88
    T5            1.40   1.66     2.26      2.58      2.72
    ALiBi         1.53   1.51     1.51      1.51      1.51

- ALiBi alone reads on as well as before: it looks at what is near, and far keys hardly count.
- Rotary positions are the best within what was trained on, and the worst beyond twice of it.
- T5's buckets go to a distance of 128; those beyond 64 have never been trained.
- Without positions the causal mask tells places apart, though badly.
- Permuting a block's inputs moves its outputs from the permuted ones by 1e-7 of their size without
  positions, and by 0.03 to 0.42 with any. The linear map is within 6e-5, phases being float32.
"""

from experiments.positions.config import Config


def get_config() -> Config:
    return Config()
