"""What a run of the scoring experiment is asked for: the sections of a config file."""

from dataclasses import dataclass, field


@dataclass
class Depths:
    """Random queries and keys of growing depth.

    Args:
      depths: d, one by one.
      keys: how many keys each query scores, and how many queries there are.
    """

    depths: tuple[int, ...] = (4, 16, 64, 256, 1024, 4096)
    keys: int = 64


@dataclass
class Saturation:
    """One score above all others, by a growing distance.

    Args:
      highest: the greatest distance.
      keys: how many keys share the softmax.
    """

    highest: int = 80
    keys: int = 64


@dataclass
class Learning:
    """Finding a key again by a rotated, noisy copy of it, with each score; by Adam.

    Args:
      depths: d of queries and keys.
      keys: how many there are to choose from.
      noise: standard deviation of what is added to the copy, where keys have 1.
      batch: examples in a step.
      steps: how many.
      rate: of Adam.
      hidden: a of additive attention, in multiples of d.
      timed: queries and keys, as many of each, that cost is measured with.
    """

    depths: tuple[int, ...] = (8, 32)
    keys: int = 32
    noise: float = 0.5
    batch: int = 64
    steps: int = 300
    rate: float = 1e-2
    hidden: int = 4
    timed: int = 256


@dataclass
class Start:
    """Projections as they are before training.

    Args:
      width: m of what is projected.
      heads: how many heads share it.
      length: tokens.
    """

    width: int = 512
    heads: int = 8
    length: int = 64


@dataclass
class Config:
    """A run of the scoring experiment; see the sections.

    Args:
      seeds: each number is the mean over these.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    depths: Depths = field(default_factory=Depths)
    saturation: Saturation = field(default_factory=Saturation)
    learning: Learning = field(default_factory=Learning)
    start: Start = field(default_factory=Start)
