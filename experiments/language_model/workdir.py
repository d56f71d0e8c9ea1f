"""What a run leaves in its workdir, and how another finds it there."""

from pathlib import Path

from attn_jax.data.documents import Documents
from attn_jax.data.tokenizer import Tokenizer
from experiments import workdir
from experiments.language_model.config import Config
from experiments.language_model.system import System


class Workdir(workdir.Workdir[System]):
    """The files of a language model's run."""

    system = System
    free = frozenset(
        {
            "generate",
            "train.steps",
            "train.patience",
            "train.log_every",
            "train.evaluate_every",
            "train.save_every",
            "optimizer.learning_rate",
        }
    )
    of_training = frozenset({"data", "optimizer", "train", "seed"})

    def __init__(self, path: Path):
        super().__init__(path)
        self.samples = path / "samples.txt"

    def begin(self, config: Config, documents: Documents) -> Tokenizer:
        """The tokenizer that is here, if a run goes on; else one made of the text."""
        return self.tokenizer_or(lambda: config.data.tokenizer(documents))
