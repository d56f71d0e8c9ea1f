"""Translation through one vector on Multi30k: what `bahdanau.py` is without its attention.

What it shows: an encoder that has to say a whole sentence in its last states (Cho et al. 2014), the
baseline that attention overcame; see `bahdanau.py` for the two side by side.

    python -m experiments.translate --config=configs/translate/seq2seq.py

German to English by default; `seq2seq.py:en-fr` and so on for the other pairs. 3.2 million parameters;
the recipe is that of `bahdanau.py`, whose header has the results of both: BLEU 31.7 ± 1.5 here, in 26
minutes of two CPU cores.
"""

from experiments.command_line import variant
from experiments.translate.config import Batching, Config, Decoding, Optimizer, Recurrent, Training
from experiments.translate.corpora import MULTI30K_PAIRS, Multi30k


def get_config(pair: str = "de-en") -> Config:
    return Config(
        data=Multi30k(pair=variant(pair, MULTI30K_PAIRS)),
        vocabulary=4_000,
        model=Recurrent(attends=False),
        batches=Batching(tokens=2_048),
        optimizer=Optimizer(learning_rate=1e-3, warmup=200, schedule="linear"),
        train=Training(steps=8_000, smoothing=0.1, evaluate_every=1_000),
        decode=Decoding(beam=4, length_penalty=1.0, ratio=1.5, extra=8),
    )
