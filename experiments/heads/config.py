"""What a run of the heads experiment is asked for: the sections of a config file."""

from dataclasses import dataclass, field
from typing import Self

LONGEST_DISTANCE = 15  # the positions' bias has a number of its own for each distance up to this


@dataclass
class Task:
    """To say, at each place of random tokens, which stood at some distances before it.

    Args:
      distances: how far back, in tokens.
      vocabulary: how many different tokens there are.
      length: of a sequence.
    """

    distances: tuple[int, ...] = (1, 3, 6, 10)
    vocabulary: int = 16
    length: int = 32


@dataclass
class Training:
    """Adam, on new sequences at each step.

    Args:
      rows: sequences of a step.
      steps: how many.
      rate: of Adam, at first; it ends at 0.
    """

    rows: int = 32
    steps: int = 500
    rate: float = 1e-2


@dataclass
class Config:
    """A run of the heads experiment; see the sections.

    Args:
      seeds: numbers of the first table are means over these; the first is looked into.
      width: of the model, and of all its heads together.
      heads: how many, one by one; the last is looked into and pruned.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    width: int = 64
    heads: tuple[int, ...] = (1, 2, 4, 8)
    task: Task = field(default_factory=Task)
    train: Training = field(default_factory=Training)

    def checked(self) -> Self:
        """The config itself.

        Raises:
          ValueError: a number is out of its range.
        """
        if not self.heads or any(h < 1 or self.width % h for h in self.heads):
            raise ValueError(
                f"expected numbers of heads that divide width, {self.width}; got {self.heads}"
            )
        distances = self.task.distances
        if not distances or not all(0 <= x <= LONGEST_DISTANCE for x in distances):
            raise ValueError(
                f"expected task.distances from 0 to {LONGEST_DISTANCE}, got {distances}"
            )
        if self.task.length <= max(distances) or self.task.vocabulary < 2:
            raise ValueError(
                f"expected task.length of more than {max(distances)} and at least two tokens, got"
                f" {self.task.length} and {self.task.vocabulary}"
            )
        if self.train.steps < 1 or self.train.rows < 1 or not self.seeds:
            raise ValueError(
                "expected train.steps and train.rows of at least 1 and some seeds, got"
                f" {self.train.steps}, {self.train.rows} and {self.seeds}"
            )
        return self
