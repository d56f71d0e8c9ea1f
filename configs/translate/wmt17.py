"""WMT 2017, English to German: the Transformer, base and big, normalised before each sublayer.

    python -m experiments.translate --config=configs/translate/wmt17.py:base
    python -m experiments.translate --config=configs/translate/wmt17.py:big

The data is the TensorFlow Datasets set `wmt17_translate/de-en`, 5.9 million pairs, tested on
newstest2017; prepare it beforehand (`tfds build wmt17_translate/de-en`), and give its directory
with `--config.data.directory=DIR`.

Recipe: 32,000 joint subwords, 25,000 tokens a side in a batch over all devices (8 GPUs or a TPU
slice), label smoothing 0.1, Adam with b2 = 0.98, rate m^-1/2 · min(n^-1/2, n · 8000^-3/2);
parameters are averaged exponentially; beam 4, length penalty 0.6. 100,000 updates for base, 300,000
for big.

Not measured here, and so no BLEU is stated.
"""

from experiments.command_line import variant
from experiments.translate.config import Batching, Config, Decoding, Model, Optimizer, Training
from experiments.translate.corpora import Tfds

SIZES = {
    "base": Model(width=512, hidden=2_048, heads=8, encoder_layers=6, decoder_layers=6, norm="pre"),
    "big": Model(
        width=1_024,
        hidden=4_096,
        heads=16,
        encoder_layers=6,
        decoder_layers=6,
        norm="pre",
        dropout=0.3,
    ),
}
STEPS = {"base": 100_000, "big": 300_000}


def get_config(size: str = "base") -> Config:
    model = SIZES[variant(size, SIZES)]
    return Config(
        data=Tfds(name="wmt17_translate/de-en", pair="en-de"),
        vocabulary=32_000,
        model=model,
        batches=Batching(tokens=25_000, longest=256, buckets=16),
        optimizer=Optimizer(learning_rate=(model.width * 8_000) ** -0.5, warmup=8_000, clip=0.0),
        train=Training(steps=STEPS[size], ema=0.9995, evaluate_every=5_000, log_every=100),
        decode=Decoding(beam=4, length_penalty=0.6, ratio=1.0, extra=50, longest=512, tokens=8_192),
    )
