"""What a run of the long-context experiment is asked for: the sections of a config file."""

from dataclasses import dataclass, field
from typing import Self


@dataclass
class Costs:
    """One head's attention and its gradients, at growing length.

    Args:
      lengths: n, increasing.
      depth: d of queries, keys and values.
      window: how far a token sees to each side; also the block of BigBird and the stride.
      features: of the Performer.
      dense: the longest that dense attention is run at; beyond, its memory is planned alone.
      repeats: of every program, all in turn.
      patience: seconds; what has taken longer is not repeated.
    """

    lengths: tuple[int, ...] = (1024, 4096, 16384, 65536)
    depth: int = 16
    window: int = 128
    features: int = 32
    dense: int = 4096
    repeats: int = 3
    patience: float = 1.0


@dataclass
class Reach:
    """A marked token somewhere before a question, by layers of one head and Adam.

    Args:
      length: n of the sequences.
      window: how far a token sees to each side; also the block of BigBird and the stride.
      layers: how many, one by one.
      distances: from the question back to the marked token, that accuracy is measured at.
      classes: what a token can say.
      width: m.
      features: of the Performer.
      batch: sequences in a step; the marked token stands anywhere in them.
      steps: how many.
      rate: of Adam.
      tests: sequences for each distance.
    """

    length: int = 64
    window: int = 4
    layers: tuple[int, ...] = (1, 2)
    distances: tuple[int, ...] = (3, 7, 20, 41, 62)
    classes: int = 4
    width: int = 32
    features: int = 32
    batch: int = 32
    steps: int = 400
    rate: float = 5e-3
    tests: int = 128


@dataclass
class Estimate:
    """Softmax attention estimated by random features.

    Args:
      features: how many, one by one.
      sizes: standard deviation of the entries of random queries and keys.
      depth: d of them.
      tokens: how many of each.
      draws: of directions, for each seed.
    """

    features: tuple[int, ...] = (16, 64, 256, 1024)
    sizes: tuple[float, ...] = (0.25, 0.5, 1.0)
    depth: int = 64
    tokens: int = 64
    draws: int = 32


@dataclass
class Config:
    """A run of the long-context experiment; see the sections.

    Args:
      seeds: trainings and estimates are means over these.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    costs: Costs = field(default_factory=Costs)
    reach: Reach = field(default_factory=Reach)
    estimate: Estimate = field(default_factory=Estimate)

    def checked(self) -> Self:
        """The config itself.

        Raises:
          ValueError: a number is out of its range.
        """
        asked, costs, estimate = self.reach, self.costs, self.estimate
        if not asked.distances or not all(1 <= x < asked.length for x in asked.distances):
            raise ValueError(
                f"expected reach.distances from 1 to {asked.length - 1}, less than reach.length; got"
                f" {asked.distances}"
            )
        if not self.seeds or not estimate.sizes or not min(estimate.sizes) > 0:
            raise ValueError(
                "expected some seeds, and estimate.sizes of more than 0; got"
                f" {self.seeds} and {estimate.sizes}"
            )
        for name, given in {
            "costs.lengths": costs.lengths,
            "costs.window and costs.repeats": (costs.window, costs.repeats),
            "reach.layers": asked.layers,
            "reach.window, reach.steps and reach.tests": (asked.window, asked.steps, asked.tests),
            "estimate.features": estimate.features,
            "estimate.tokens and estimate.draws": (estimate.tokens, estimate.draws),
        }.items():
            if min(given, default=0) < 1:
                raise ValueError(f"expected {name} of at least 1, got {given}")
        return self
