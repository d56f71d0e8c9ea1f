"""IWSLT 2014: TED talks, about 160,000 pairs, German to English.

What it shows: the small Transformer of the IWSLT literature, 512 wide with 4 heads, six layers and
feed-forward networks of 1,024.

    python -m experiments.translate --config=configs/translate/iwslt14.py \\
        --config.data.train.source=train.de --config.data.train.target=train.en \\
        --config.data.validation.source=valid.de --config.data.validation.target=valid.en \\
        --config.data.test.source=test.de --config.data.test.target=test.en

and `iwslt14.py:en-de` for the other way. The corpus is not in TensorFlow Datasets
(`ted_hrlr_translate` there is another cut of the talks): download it from the IWSLT archive, de-en,
and give its files, plain text, a sentence a line.

Recipe: 10,000 joint subwords, batches of 4,096 tokens on one GPU, 50,000 updates, dropout 0.3,
label smoothing 0.1, Adam with b2 = 0.98, peak rate 5e-4 after 4,000 updates, then the inverse
square root; beam 5. Expected: 34 to 35 tokenised, lowercased BLEU, what is commonly reported of this
size; a cased sacreBLEU of raw text is not comparable with it. Not measured here.
"""

from experiments.command_line import variant
from experiments.translate.config import Batching, Config, Decoding, Model, Optimizer, Training
from experiments.translate.corpora import Aligned

PAIRS = ("de-en", "en-de")


def get_config(pair: str = "de-en") -> Config:
    return Config(
        data=Aligned(pair=variant(pair, PAIRS)),
        vocabulary=10_000,
        model=Model(
            width=512, hidden=1_024, heads=4, encoder_layers=6, decoder_layers=6, norm="pre",
            dropout=0.3,
        ),
        batches=Batching(tokens=4_096, longest=175, buckets=12),
        optimizer=Optimizer(learning_rate=5e-4, warmup=4_000),
        train=Training(steps=50_000, evaluate_every=2_000, log_every=100),
        decode=Decoding(beam=5, length_penalty=1.0, tokens=8_192),
    )  # fmt: skip
