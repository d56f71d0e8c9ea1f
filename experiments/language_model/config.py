"""What a run of the language model is asked for: the sections of a config file."""

from dataclasses import dataclass, field

from attn_jax.decode import Sample
from attn_jax.models.gpt import GPTConfig
from attn_jax.modules.blocks import BlockOptions
from experiments.text import Data as Data
from experiments.text import Training as Training
from experiments.translate.config import Optimizer as Optimizer


@dataclass
class Model:
    """The GPT.

    Args:
      width: of the residual stream.
      hidden: of the feed-forward networks.
      heads, layers: how many.
      context: tokens of a piece that it is trained on.
      positions: learned, sinusoidal, rotary, alibi, t5 or none.
      longest: how many positions are learned, where they are; the context where 0.
      dropout: rate on embeddings and on the output of each sublayer.
    """

    width: int = 128
    hidden: int = 512
    heads: int = 4
    layers: int = 4
    context: int = 128
    positions: str = "rotary"
    longest: int = 0
    dropout: float = 0.1

    def build(self, vocabulary: int) -> GPTConfig:
        """Its sizes.

        Raises:
          ValueError: a size or rate is out of its range.
        """
        for name in ("width", "hidden", "heads", "layers", "context"):
            if (size := getattr(self, name)) < 1:
                raise ValueError(f"expected model.{name} of at least 1, got {size}")
        if self.longest < 0:
            raise ValueError(f"expected model.longest of at least 0, got {self.longest}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"expected model.dropout in [0, 1), got {self.dropout}")
        blocks = BlockOptions(
            width=self.width,
            hidden=self.hidden,
            heads=self.heads,
            norm="pre",
            activation="gelu_tanh",
            epsilon=1e-5,
            dropout=self.dropout,
        )
        longest = self.longest or self.context
        return GPTConfig(vocabulary, longest, self.layers, blocks, kind=self.positions)  # type: ignore[arg-type]


@dataclass
class Generation:
    """How it writes.

    Args:
      temperature: below 1 sharpens, above 1 flattens; 0 takes the most probable token.
      top_k: of how many tokens one is drawn; 0 for all.
      top_p: of the fewest tokens whose probabilities reach it; 1 for all.
      length: tokens at most.
      seed: of the draws.
    """

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    length: int = 200
    seed: int = 0

    @property
    def options(self) -> Sample | None:
        """How to draw; None to take the most probable.

        Raises:
          ValueError: a number is out of its range.
        """
        if self.length < 1:
            raise ValueError(f"expected generate.length of at least 1, got {self.length}")
        if self.temperature == 0:
            return None
        return Sample(self.temperature, self.top_k or None, None if self.top_p == 1 else self.top_p)


@dataclass
class Config:
    """A run of the language model; see the sections.

    Args:
      seed: of parameters, pieces and dropout.
    """

    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Training = field(default_factory=Training)
    generate: Generation = field(default_factory=Generation)
    seed: int = 0
