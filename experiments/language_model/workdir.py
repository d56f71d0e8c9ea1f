"""What a run leaves in its workdir, and how another finds it there."""

import dataclasses
from pathlib import Path
from typing import Any

from attn_jax.data.documents import Documents
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.train import Checkpoints, State, compare, hold
from experiments.language_model.config import Config
from experiments.language_model.system import System

MAY_CHANGE = frozenset(
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
"""What may be different when a run goes on."""

_ONLY_TRAINING = frozenset({"data", "optimizer", "train", "seed"})


class Workdir:
    """The files of a run.

    Args:
      path: the directory; it need not be there.
    """

    def __init__(self, path: Path):
        self.path = path
        self.tokenizer = path / "tokenizer.model"
        self.checkpoints = path / "checkpoints"
        self.samples = path / "samples.txt"

    def begin(self, config: Config, documents: Documents) -> Tokenizer:
        """The tokenizer that is here, if a run goes on; else one made of the text."""
        if any(self.checkpoints.glob("*")):
            return Tokenizer.load(self.tokenizer)
        tokenizer = config.data.tokenizer(documents)
        tokenizer.save(self.tokenizer)
        return tokenizer

    def trained(self, config: Config) -> tuple[System, State]:
        """The system that was trained here, and its best state.

        Raises:
          FileNotFoundError: nothing was.
          Mismatch: by another config; only what matters to training alone may differ.
          WorkdirBusy: it is being trained.
        """
        if not any(self.checkpoints.glob("*")):
            raise FileNotFoundError(f"nothing has been trained in {self.path}; train first")
        system = System(config, Tokenizer.load(self.tokenizer))
        with hold(self.path):
            return system, self.best(system)

    def best(self, system: System) -> State:
        """The state of the best evaluation, or the newest where there were none.

        Raises:
          Mismatch: it was trained with another tokenizer or model.
          Unreadable: it is broken.
        """

        def check(record: dict[str, Any]) -> None:
            trained_with = {"tokenizer": record["identity"]["tokenizer"]}
            compare(trained_with, {"tokenizer": system.tokenizer.fingerprint}, what="tokenizer")
            compare(record["config"], plain(system.config), free=MAY_CHANGE | _ONLY_TRAINING)

        like = system.initial_state()
        with Checkpoints(self.checkpoints) as checkpoints:
            for step in checkpoints.best_steps(1):
                return checkpoints.restore(step, like, check=check)[0]
            found = checkpoints.newest(like, check=check)
        if found is None:
            raise FileNotFoundError(f"nothing has been trained in {self.path}; train first")
        return found[0]


def plain(config: Config) -> dict[str, Any]:
    """A config as JSON can hold it."""
    return dataclasses.asdict(config)
