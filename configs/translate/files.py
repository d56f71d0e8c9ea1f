"""Your own text: a Transformer of the Multi30k size on files of sentence pairs.

    python -m experiments.translate --config=configs/translate/files.py \\
        --config.data.train.source=train.en --config.data.train.target=train.fr
    python -m experiments.translate --config=configs/translate/files.py:tsv \\
        --config.data.file=eng-cmn.tsv --config.data.pair=en-zh
    python -m experiments.translate --config=configs/translate/files.py:tfds \\
        --config.data.name=wmt14_translate/de-en --config.data.pair=en-de

Two files whose lines correspond (default), one of `source TAB target` lines (`:tsv`, the form of the
Tatoeba and Anki downloads), or a TensorFlow Datasets set that was prepared beforehand (`:tfds`).
A tenth is held out unless files for validation and test are given; name the languages with
`--config.data.pair=en-zh`, so that Chinese is scored by characters; run long enough for your text
with `--config.train.steps=N`.
"""

from typing import Any

from experiments.command_line import variant
from experiments.translate.config import Config, Training
from experiments.translate.corpora import Aligned, TabSeparated, Tfds

KINDS: dict[str, Any] = {"aligned": Aligned, "tsv": TabSeparated, "tfds": Tfds}


def get_config(kind: str = "aligned") -> Config:
    return Config(data=KINDS[variant(kind, KINDS)](), train=Training(steps=3_000))
