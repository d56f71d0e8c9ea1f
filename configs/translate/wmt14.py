"""WMT 2014, English to German: the Transformer of Vaswani et al. (2017), base and big.

    python -m experiments.translate --config=configs/translate/wmt14.py:base
    python -m experiments.translate --config=configs/translate/wmt14.py:big

The data is the TensorFlow Datasets set `wmt14_translate/de-en`, 4.5 million pairs, tested on
newstest2014; prepare it beforehand (`tfds build wmt14_translate/de-en`), and give its directory
with `--config.data.directory=DIR`.

Recipe: 37,000 joint subwords, 25,000 tokens a side in a batch over all devices (8 GPUs or a TPU
slice), label smoothing 0.1, Adam with b2 = 0.98, rate m^-1/2 · min(n^-1/2, n · 4000^-3/2); the last
parameters are averaged exponentially where the paper averages checkpoints; beam 4, length penalty
0.6.

| | parameters | updates | dropout | the paper's BLEU, tokenised |
|---|---|---|---|---|
| base | 63 M | 100,000 | 0.1 | 27.3 |
| big | 214 M | 300,000 | 0.3 | 28.4 |

Cased sacreBLEU of raw text comes out lower. Not measured here.
"""

from experiments.command_line import variant
from experiments.translate.config import Batching, Config, Decoding, Model, Optimizer, Training
from experiments.translate.corpora import Tfds

SIZES = {
    "base": Model(width=512, hidden=2_048, heads=8, encoder_layers=6, decoder_layers=6),
    "big": Model(
        width=1_024, hidden=4_096, heads=16, encoder_layers=6, decoder_layers=6, dropout=0.3
    ),
}
STEPS = {"base": 100_000, "big": 300_000}


def get_config(size: str = "base") -> Config:
    model = SIZES[variant(size, SIZES)]
    return Config(
        data=Tfds(name="wmt14_translate/de-en", pair="en-de"),
        vocabulary=37_000,
        model=model,
        batches=Batching(tokens=25_000, longest=256, buckets=16),
        optimizer=Optimizer(learning_rate=(model.width * 4_000) ** -0.5, warmup=4_000, clip=0.0),
        train=Training(steps=STEPS[size], ema=0.9995, evaluate_every=5_000, log_every=100),
        decode=Decoding(beam=4, length_penalty=0.6, ratio=1.0, extra=50, longest=512, tokens=8_192),
    )
