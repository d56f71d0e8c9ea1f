"""Bahdanau, Cho and Bengio (2015) on Multi30k: a recurrent translator that learns to align.

What it shows: a decoder whose every state looks back at the source. Beside `seq2seq.py`, of the same
sizes and without attention, BLEU falls less as sources grow: `bleu-by-length.png`.

    python -m experiments.translate --config=configs/translate/bahdanau.py
    python -m experiments.translate --config=configs/translate/seq2seq.py
    python -m experiments.translate --config=configs/translate/bahdanau.py --mode=evaluate \\
        --against=runs/translate/seq2seq

German to English by default; `bahdanau.py:en-fr` and so on for the other pairs. 3.4 million parameters:
a bidirectional GRU encoder and a GRU decoder of 256 units, additive attention of 256, a maxout output
tied to embeddings of 256; dropout 0.3, Adam with a peak rate of 1e-3, label smoothing 0.1.

German to English, test_2016_flickr, raw text, sacreBLEU 13a, beam 4, seed 0: 41.1 ± 1.5, and 31.7 ± 1.5
without attention. From sources of 9 tokens to those of 36, it falls from 53 to 25, and from 46 to 15
without. 8,000 steps take about 40 minutes of two CPU cores (AMD EPYC), 26 without attention. On
validation a length penalty of 1.0 is best for both: longer translations, by 1.5 and 2, are worse.
"""

from experiments.command_line import variant
from experiments.translate.config import Batching, Config, Decoding, Optimizer, Recurrent, Training
from experiments.translate.corpora import MULTI30K_PAIRS, Multi30k


def get_config(pair: str = "de-en") -> Config:
    return Config(
        data=Multi30k(pair=variant(pair, MULTI30K_PAIRS)),
        vocabulary=4_000,
        model=Recurrent(attends=True),
        batches=Batching(tokens=2_048),
        optimizer=Optimizer(learning_rate=1e-3, warmup=200, schedule="linear"),
        train=Training(steps=8_000, smoothing=0.1, evaluate_every=1_000),
        decode=Decoding(beam=4, length_penalty=1.0, ratio=1.5, extra=8),
    )
