"""What a run of the recall experiment is asked for: the sections of a config file."""

from dataclasses import dataclass, field
from typing import Self

MODELS = ("fixed vector", "attention", "Transformer")


@dataclass
class Tasks:
    """What is to be remembered, and for how long.

    Args:
      symbols: how many there are: to copy, and of keys and of values to look up.
      lengths: how many symbols are copied, one by one.
      pairs: of a key and a value, all to be looked up.
      distances: how many fillers stand on either side of the pairs, one by one.
    """

    symbols: int = 8
    lengths: tuple[int, ...] = (4, 8, 16, 32)
    pairs: int = 4
    distances: tuple[int, ...] = (0, 8, 32)


@dataclass
class Training:
    """Adam, on new sequences at each step.

    Args:
      rows: sequences of a step.
      steps: how many.
      rate: the largest, after a twentieth of the steps; it ends at 0.
      learned: the accuracy, over ten steps, at which a task is called learned.
    """

    rows: int = 32
    steps: int = 500
    rate: float = 5e-3
    learned: float = 0.95


@dataclass
class Config:
    """A run of the recall experiment; see the sections.

    Args:
      models: one by one: fixed vector, attention (Bahdanau's), Transformer.
      seeds: accuracies are means over these; a task is learned when all have learned it.
      width: of all models, of every state and embedding.
      heads: of the Transformer.
    """

    models: tuple[str, ...] = MODELS
    seeds: tuple[int, ...] = (0,)
    width: int = 64
    heads: int = 4
    tasks: Tasks = field(default_factory=Tasks)
    train: Training = field(default_factory=Training)

    def checked(self) -> Self:
        """The config itself.

        Raises:
          ValueError: a number is out of its range, or there is no model of a name.
        """
        tasks = self.tasks
        if unknown := [name for name in self.models if name not in MODELS]:
            raise ValueError(f"no model {unknown[0]!r}; there are {', '.join(MODELS)}")
        if self.heads < 1 or self.width < 2 or self.width % (2 * self.heads):
            raise ValueError(
                "expected a width that twice the heads divide, got width"
                f" {self.width} and heads {self.heads}"
            )
        if not 1 <= tasks.pairs <= tasks.symbols or tasks.symbols < 2:
            raise ValueError(
                "expected tasks.symbols of at least 2 and tasks.pairs from 1 to as many, got"
                f" {tasks.symbols} and {tasks.pairs}"
            )
        if min(tasks.lengths, default=0) < 1 or min(tasks.distances, default=-1) < 0:
            raise ValueError(
                "expected tasks.lengths of at least 1 and tasks.distances of at least 0, got"
                f" {tasks.lengths} and {tasks.distances}"
            )
        if self.train.steps < 10 or self.train.rows < 1 or not self.seeds:
            raise ValueError(
                "expected train.steps of at least 10, train.rows of at least 1 and some seeds, got"
                f" {self.train.steps}, {self.train.rows} and {self.seeds}"
            )
        return self
