"""What a run of the pitfalls is asked for: a section for each trap."""

from dataclasses import dataclass, field


@dataclass
class Saturation:
    """Learning to fetch a value through the softmax, with scores of several scales; by Adam.

    Args:
      depth: d of queries and keys.
      keys: how many there are to choose from.
      noise: standard deviation of what is added to a query, where keys have 1.
      batch: examples in a step.
      steps: how many.
      rates: of Adam, each tried; a score is judged by its best.
    """

    depth: int = 64
    keys: int = 16
    noise: float = 0.5
    batch: int = 32
    steps: int = 150
    rates: tuple[float, ...] = (3e-3, 1e-2)


@dataclass
class Overfitting:
    """A small model on few examples, all of them in every step of AdamW.

    Args:
      examples: to learn from.
      tests: to test with.
      tokens: of an example.
      width: m of a token.
      hidden: f of the feed-forward network.
      signal: how far the two classes' tokens are moved apart, where noise has 1.
      steps: how many.
      rate: of AdamW.
      dropout: rate on attention weights, where there is one.
      decay: of weights, where there is one.
    """

    examples: int = 64
    tests: int = 512
    tokens: int = 12
    width: int = 16
    hidden: int = 32
    signal: float = 0.3
    steps: int = 150
    rate: float = 3e-3
    dropout: float = 0.5
    decay: float = 1.0


@dataclass
class Rounding:
    """Random queries and keys, scaled until their largest score is of a given size.

    Args:
      sizes: of the largest score.
      tokens: queries, and keys.
      depth: d.
    """

    sizes: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
    tokens: int = 128
    depth: int = 32


@dataclass
class Rematerialisation:
    """The gradient of a stack of Transformer blocks.

    Args:
      layers: how many blocks, one by one.
      tokens: t.
      width: m.
      heads: h.
      repeats: of every program, in turn.
    """

    layers: tuple[int, ...] = (2, 4, 8, 16)
    tokens: int = 256
    width: int = 64
    heads: int = 4
    repeats: int = 9


@dataclass
class Leaks:
    """Predicting the next of random tokens, which nobody can.

    Args:
      vocabulary: how many tokens there are, all equally likely.
      tokens: t.
      width: m.
      batch: sequences in a step.
      steps: how many.
      rate: of Adam.
    """

    vocabulary: int = 8
    tokens: int = 16
    width: int = 32
    batch: int = 32
    steps: int = 150
    rate: float = 1e-2


@dataclass
class Config:
    """A run of the pitfalls; see the sections.

    Args:
      seeds: each number is the mean over these.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    saturation: Saturation = field(default_factory=Saturation)
    overfitting: Overfitting = field(default_factory=Overfitting)
    rounding: Rounding = field(default_factory=Rounding)
    rematerialisation: Rematerialisation = field(default_factory=Rematerialisation)
    leaks: Leaks = field(default_factory=Leaks)
