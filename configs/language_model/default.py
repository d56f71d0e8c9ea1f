"""Language model: a GPT from scratch on text, by default the reference that Python carries.

    python -m experiments.language_model --config=configs/language_model/default.py
    python -m experiments.language_model --config=configs/language_model/default.py:character
    python -m experiments.language_model --config=configs/language_model/default.py \\
        --config.data.path=FILE --workdir=runs/mine
    python -m experiments.language_model --config=configs/language_model/default.py \\
        --mode=generate --prompt='The "while" statement' --config.generate.temperature=0.7

What it shows: 0.9 million parameters learn, in 800 steps, more of a text than counting
characters can know. The last tenth of the topics is held out, and paragraphs of it are left out of
training. Bits per character compare what has different tokens; `character` has an entry for each.

Result to expect (seed 0, Python 3.12; 3 min 28 s of CPU time, on two cores of an AMD EPYC that were
doing other work):

    of the held-out text       bits per character
    1-grams of characters      4.60
    3-grams                    2.36
    5-grams                    1.82
    GPT, step 200, 400, 800    1.92, 1.74, 1.68      perplexity 12.3 per subword
    xz                         1.47

xz stands beside it because it finds whole phrases again, of which a reference has many, wherever they
stood; the GPT has 128 subwords to look back at. What it writes has the shape of the reference, its
words and its statements, and no sense.

The text is that of docs.python.org, © Python Software Foundation, under the PSF License Version 2.
"""

from experiments.command_line import variant
from experiments.language_model.config import Config, Data, Model, Optimizer, Training


def get_config(unit: str = "subword") -> Config:
    character = variant(unit, ("subword", "character")) == "character"
    return Config(
        data=Data(unit=unit),
        model=Model(context=192 if character else 128, dropout=0.0),
        optimizer=Optimizer(learning_rate=4e-3, schedule="cosine", warmup=50),
        train=Training(steps=600 if character else 800, evaluate_every=200),
    )
