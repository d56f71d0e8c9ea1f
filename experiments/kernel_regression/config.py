"""What a run of kernel regression is asked for: the sections of a config file."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Data:
    """Noisy observations of 2.333 sin x + x^0.666 at uniform x in [0, 5].

    Args:
      points: how many.
      noise: its standard deviation.
      seed: of points and noise.
    """

    points: int = 150
    noise: float = 0.5
    seed: int = 0


@dataclass
class Learning:
    """A single width w, by SGD on the leave-one-out error.

    Args:
      start: w before the first epoch.
      rate: of SGD.
      epochs: steps, each on the error of all points, or of those drawn for it.
      points: how many to draw for each epoch; 0 for all.
    """

    start: float = 1.0
    rate: float = 0.5
    epochs: int = 20
    points: int = 0


@dataclass
class Sweep:
    """Widths tried one by one, evenly spread on a logarithmic scale.

    Args:
      low, high: the least and the greatest.
      widths: how many.
      points: how many to leave out in turn; 0 for all.
    """

    low: float = 0.05
    high: float = 5.0
    widths: int = 81
    points: int = 0

    def values(self) -> np.ndarray:
        """The widths, `h`, float32."""
        return np.geomspace(self.low, self.high, self.widths, dtype=np.float32)


@dataclass
class Heads:
    """One learned width per head; each head sees the curve run at a speed of its own.

    A head's values are vectors: its curve observed several times at each point, since what a single
    sample of a smooth curve says of the best width is mostly chance.

    Adam, since one rate of SGD does not suit them all: the faster the curve, the steeper the error.

    Args:
      speeds: one per head; none leaves this part out.
      times: how often each curve is observed at each point.
      start: of all widths.
      rate: of Adam.
      epochs: steps.
    """

    speeds: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    times: int = 4
    start: float = 0.5
    rate: float = 0.02
    epochs: int = 60


@dataclass
class Depths:
    """Inputs of more than one dimension.

    Args:
      depths: numbers of dimensions; none leaves this part out.
      tests: points to compare with the truth at.
    """

    depths: tuple[int, ...] = (1, 2, 4, 8)
    tests: int = 500


@dataclass
class Config:
    """A run of kernel regression; see the sections."""

    data: Data = field(default_factory=Data)
    learning: Learning = field(default_factory=Learning)
    sweep: Sweep = field(default_factory=Sweep)
    heads: Heads = field(default_factory=Heads)
    depths: Depths = field(default_factory=Depths)
