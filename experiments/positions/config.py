"""What a run of the positions experiment is asked for: the sections of a config file."""

from dataclasses import dataclass, field
from typing import Self

from attn_jax.models.gpt import GPTConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.positional import checked


@dataclass
class Model:
    """A small GPT over characters, the same but for its positions.

    Args:
      width: of the residual stream; the feed-forward networks are four times as wide.
      heads, layers: how many.
    """

    width: int = 64
    heads: int = 4
    layers: int = 2

    def sizes(self, kind: str, vocabulary: int, positions: int) -> GPTConfig:
        """Of a model with positions of a kind, so many where they are learned."""
        blocks = BlockOptions(
            width=self.width,
            hidden=4 * self.width,
            heads=self.heads,
            norm="pre",
            activation="gelu_tanh",
            dropout=0.0,
        )
        return GPTConfig(vocabulary, positions, self.layers, blocks, kind=kind)  # type: ignore[arg-type]


@dataclass
class Training:
    """Adam, on random pieces of the text.

    Args:
      length: characters of a piece.
      rows: pieces of a step.
      steps: how many.
      rate: the largest, after a tenth of the steps; it ends at 0.
    """

    length: int = 64
    rows: int = 16
    steps: int = 800
    rate: float = 6e-3


@dataclass
class Config:
    """A run of the positions experiment; see the sections.

    Args:
      kinds: of positions, one by one.
      seeds: each number is the mean over these.
      heldout: the part of the Python language reference that is held out.
      longest: how far that is read, in characters.
    """

    kinds: tuple[str, ...] = ("none", "sinusoidal", "learned", "rotary", "t5", "alibi")
    seeds: tuple[int, ...] = (0,)
    heldout: float = 0.1
    model: Model = field(default_factory=Model)
    train: Training = field(default_factory=Training)
    longest: int = 1024

    def checked(self) -> Self:
        """The config itself.

        Raises:
          ValueError: a number is out of its range, or there are no positions of a kind.
        """
        for kind in self.kinds:
            checked(kind)
        if self.train.steps < 2 or self.train.rows < 1 or not self.seeds:
            raise ValueError(
                "expected train.steps of at least 2, train.rows of at least 1 and some seeds, got"
                f" {self.train.steps}, {self.train.rows} and {self.seeds}"
            )
        if not 0 < self.train.length <= self.longest:
            raise ValueError(
                "expected a train.length of at least 1 and longest of at least that, got"
                f" {self.train.length} and {self.longest}"
            )
        return self
