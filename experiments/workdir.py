"""What a run that trains a model over a tokenizer leaves in its workdir, and how another finds it."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from attn_jax.data.tokenizer import Tokenizer
from attn_jax.train import Checkpoints, Run, State, Unreadable, best_states
from experiments.system import System

S = TypeVar("S", bound=System)
"""Of an experiment."""


class Workdir(Generic[S]):
    """The files of a run; each experiment has a subclass that knows more.

    Args:
      path: the directory; it need not be there.

    Attributes:
      system: makes a system of a config and a tokenizer.
      free: fields of the config that may be different when the run goes on.
      of_training: sections of the config that matter to training alone, and may be different
        afterwards: a state is then read as it was trained.
    """

    system: ClassVar[Callable[..., Any]]
    free: ClassVar[frozenset[str]] = frozenset(
        {
            "optimizer.learning_rate",
            "train.steps",
            "train.patience",
            "train.log_every",
            "train.evaluate_every",
            "train.save_every",
        }
    )
    of_training: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, path: Path):
        self.path = path
        self.tokenizer = path / "tokenizer.model"
        self.checkpoints = Run(path).checkpoints

    def run(self, config: Any, **identity: str) -> Run:
        """What `attn_jax.train.fit` is told of a run of this config."""
        made = {"config": self.plain(config), "defaults": self.plain(defaults(config))}
        return Run(self.path, identity=identity, free=self.free, **made)

    def tokenizer_or(self, make: Callable[[], Tokenizer]) -> Tokenizer:
        """The tokenizer that is here, if a run goes on; else one that is made, and saved.

        Raises:
          FileNotFoundError: there are checkpoints and no tokenizer.
        """
        if Run(self.path).begun:
            return Tokenizer.load(self.tokenizer)
        tokenizer = make()
        tokenizer.save(self.tokenizer)
        return tokenizer

    def tokenizer_of(self, config: Any) -> Any:
        """The tokenizer of a run of this config."""
        return Tokenizer.load(self.tokenizer)

    def trained(self, config: Any) -> tuple[S, State]:
        """The system that was trained here, and its best state.

        Raises:
          FileNotFoundError: nothing was.
          Mismatch: by another config; only what matters to training alone may differ.
        """
        Run(self.path).require_begun()
        config = self._as_trained(config)
        system = type(self).system(config, self.tokenizer_of(config))
        return system, self.best(system)

    def best(self, system: S) -> State:
        """The state of the best evaluation, or the newest where there were none.

        Raises:
          FileNotFoundError, Mismatch, Unreadable: as of :func:`attn_jax.train.best_states`.
        """
        return self.best_states(system, system.initial_state())[0]

    def best_states(self, system: S, like: State, count: int = 1) -> list[State]:
        """:func:`attn_jax.train.best_states` of a run with this system's config and tokenizer."""
        run = self.run(system.config, tokenizer=system.tokenizer.fingerprint)
        return best_states(dataclasses.replace(run, free=self.free | self.of_training), like, count)

    def _as_trained(self, config: Any) -> Any:
        """The config, but optimised as the run here is: that decides what its states are made of."""
        recorded = self._recorded()
        sections = {}
        for name in self.of_training & {"optimizer", "train"} & recorded.keys():
            given = dataclasses.asdict(section := getattr(config, name))
            free = {field: x for field, x in given.items() if f"{name}.{field}" in self.free}
            known = {field: x for field, x in recorded[name].items() if field in given}
            sections[name] = type(section)(**{**known, **free})
        return dataclasses.replace(config, **sections)

    def _recorded(self) -> Mapping[str, Any]:
        """The config of the newest checkpoint that can be read."""
        with Checkpoints(self.checkpoints) as checkpoints:
            for step in checkpoints.steps()[::-1]:
                with contextlib.suppress(Unreadable):
                    return checkpoints.record(step)["config"]
        return {}

    @staticmethod
    def plain(config: Any) -> dict[str, Any]:
        """A config as JSON can hold it."""
        return dataclasses.asdict(config)


def defaults(config: Any) -> Any:
    """A config of the same sections, each as its class makes it.

    >>> from experiments.translate.config import Config, Recurrent
    >>> defaults(Config(vocabulary=7, model=Recurrent(width=3))) == Config(model=Recurrent())
    True
    """
    sections = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    made = {name: defaults(x) for name, x in sections.items() if dataclasses.is_dataclass(x)}
    return type(config)(**made)
