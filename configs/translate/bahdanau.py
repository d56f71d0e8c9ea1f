"""Bahdanau, Cho and Bengio (2015) on Multi30k: a recurrent translator that learns to align.

What it shows: a decoder whose every state looks back at the source. Beside `seq2seq.py`, of the same
sizes and without attention: BLEU by the length of the source, `bleu-by-length.png`, falls there for long
sentences where it does not here.

    python -m experiments.translate --config=configs/translate/bahdanau.py
    python -m experiments.translate --config=configs/translate/seq2seq.py
    python -m experiments.translate --config=configs/translate/bahdanau.py --mode=evaluate \\
        --against=runs/translate/seq2seq

German to English by default; `bahdanau.py:en-fr` and so on for the other pairs. 3.4 million parameters:
a bidirectional GRU encoder and a GRU decoder of 256 units, additive attention of 256, a maxout output
tied to embeddings of 256; dropout 0.3, Adam with a peak rate of 1e-3, label smoothing 0.1. Aimed at an
hour of two CPU cores.
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
