"""A published MarianMT on Multi30k or your own text: evaluated as it is, or trained further.

    python -m experiments.translate --config=configs/translate/marian.py:en-de --mode=evaluate \\
        --config.model.directory=DIR

DIR is what `transformers` writes with `save_pretrained`: config.json, model.safetensors, source.spm,
target.spm and vocab.json, such as Helsinki-NLP/opus-mt-en-de or what `--mode=export` has written. All
modes work on it; without `--mode` it is fine-tuned on the corpus, and then they work on the result. For
your own text `marian.py:aligned` and `marian.py:tsv` take the files that `files.py` does.

The length penalty is that of Wu et al. (2016), not that of `transformers`. No published weights were at
hand where this was written, so that no BLEU is stated.
"""

from typing import Any

from experiments.command_line import variant
from experiments.translate.config import Batching, Config, Decoding, Optimizer, Published, Training
from experiments.translate.corpora import MULTI30K_PAIRS, Aligned, Multi30k, TabSeparated

FILES: dict[str, Any] = {"aligned": Aligned, "tsv": TabSeparated}


def get_config(text: str = "en-de") -> Config:
    variant(text, (*MULTI30K_PAIRS, *FILES))
    return Config(
        data=FILES[text]() if text in FILES else Multi30k(pair=text),
        model=Published(),
        batches=Batching(tokens=2_048),
        optimizer=Optimizer(learning_rate=5e-5, warmup=100, schedule="linear"),
        train=Training(steps=1_000, smoothing=0.1, evaluate_every=200),
        decode=Decoding(beam=4, length_penalty=1.0),
    )
