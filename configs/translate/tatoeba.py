"""Tatoeba: short everyday sentences, English and Mandarin, simplified and traditional mixed.

What it shows: translation into a language without spaces, scored by characters (`tok:zh`) and chrF.

    python -m experiments.translate --config=configs/translate/tatoeba.py --config.data.directory=DIR

The directory holds `cmn.txt`, of the archive cmn-eng.zip of https://www.manythings.org/anki/, or
`eng-cmn.tsv` of the same form, `english TAB mandarin` lines. `tatoeba.py:zh-en` translates the
other way. A tenth is held out, half to choose the checkpoint by and half to report on; no sentence
is in two of them.

Recipe: 6,000 joint subwords, a narrow Transformer of three layers with dropout 0.3, 3,000 updates
of 2,048 tokens.

English to Mandarin, 1,056 held-out pairs, seed 0: BLEU 22.8 ± 1.6 (`tok:zh`), chrF 20.5 ± 1.2, in 17
minutes of training steps on two CPU cores (AMD EPYC) that other work used, too. "She always wears
black." becomes 她總是穿黑色的衣服。, as it should but for one 著; "His shirt was stained with sauce."
is beyond it: 他的襯衫被, and then 我被 over and over.
"""

from experiments.command_line import variant
from experiments.translate.config import Batching, Config, Decoding, Model, Optimizer, Training
from experiments.translate.corpora import Tatoeba

PAIRS = ("en-zh", "zh-en")


def get_config(pair: str = "en-zh") -> Config:
    return Config(
        data=Tatoeba(pair=variant(pair, PAIRS)),
        vocabulary=6_000,
        model=Model(
            width=192, hidden=384, heads=4, encoder_layers=3, decoder_layers=3, norm="pre",
            dropout=0.3,
        ),
        batches=Batching(tokens=2_048, longest=64),
        optimizer=Optimizer(learning_rate=3e-3, warmup=400, schedule="linear"),
        train=Training(steps=3_000, evaluate_every=500),
        decode=Decoding(beam=4, length_penalty=1.0, longest=128),
    )  # fmt: skip
