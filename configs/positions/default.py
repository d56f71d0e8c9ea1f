"""Positions: six ways to say where a token stands, trained on 64 characters and read up to 1,024.

What it shows: attention by itself does not know where tokens stand (permuted inputs give permuted
outputs, unless a causal mask tells places apart); sinusoids k positions on are a linear map of those
here; and what is added at a place is foreign where no place was trained on, while a penalty by
distance is not. A small GPT over the characters of the Python language reference, the same but for its
positions, and the same held-out text at all places.

    python -m experiments.positions --config=configs/positions/default.py

Result to expect (seed 0, Python 3.12; 112 s of CPU time on an AMD EPYC that was doing other work).
Nats per character at places from 0 to 64, as in training, and beyond:

    positions     0–64   64–128   128–256   256–512   512–1,024
    none          2.01   2.05     2.12      2.14      2.18
    sinusoidal    1.56   2.81     2.95      2.94      3.04
    learned       1.55   no more than the 64 positions that were learned, says the error
    rotary        1.44   1.57     3.18      3.54      3.89
    T5            1.46   1.66     2.24      2.55      2.72
    ALiBi         1.56   1.51     1.50      1.50      1.51

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
