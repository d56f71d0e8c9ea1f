"""What a run of the generation of images is asked for: the sections of a config file."""

from dataclasses import dataclass, field
from typing import Self

from attn_jax import Rule, masks, patterns
from attn_jax.models.image_gpt import ImageGPTConfig
from attn_jax.modules import BlockOptions
from experiments.classify_images.config import Data as Data

PATTERNS = ("dense", "strided")


def rule(pattern: str, stride: int) -> Rule:
    """Who looks at whom, causally: all before; or the last `stride` pixels, and every one above.

    Raises:
      ValueError: there is no such pattern.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"expected patterns among {', '.join(PATTERNS)}; got {pattern!r}")
    return Rule(mask=masks.causal() if pattern == "dense" else patterns.strided(stride))


@dataclass
class Model:
    """The Image GPT.

    Args:
      colours: shades that a channel of a pixel is rounded to.
      width: of the residual stream; the feed-forward networks are four times as wide.
      heads, layers: how many.
      dropout: rate on embeddings and on the output of each sublayer.
    """

    colours: int = 17
    width: int = 64
    heads: int = 4
    layers: int = 3
    dropout: float = 0.1

    def sizes(self, pixels: int) -> ImageGPTConfig:
        """For images of so many pixels, channels counted."""
        blocks = BlockOptions(
            width=self.width,
            hidden=4 * self.width,
            heads=self.heads,
            norm="pre",
            activation="gelu_sigmoid",
            epsilon=1e-5,
            dropout=self.dropout,
            centred=False,
        )
        return ImageGPTConfig(self.colours + 1, pixels, self.layers, blocks)


@dataclass
class Training:
    """AdamW, on random images.

    Args:
      rows: images of a step.
      steps: how many.
      rate: the largest, after a tenth of the steps; it ends at 0.
      decay: of weights.
    """

    rows: int = 32
    steps: int = 600
    rate: float = 5e-3
    decay: float = 0.1


@dataclass
class Config:
    """A run; see the sections.

    Args:
      patterns: who looks at whom, one by one: dense, strided.
      seeds: numbers are means over these; what is drawn is of the first.
      temperature: of drawing.
      samples: images that are drawn from nothing, and halves that are shown completed.
    """

    patterns: tuple[str, ...] = PATTERNS
    seeds: tuple[int, ...] = (0, 1, 2)
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    train: Training = field(default_factory=Training)
    temperature: float = 1.0
    samples: int = 10

    def checked(self) -> Self:
        """The config itself.

        Raises:
          ValueError: a number is out of its range, or there is no such pattern.
        """
        for pattern in self.patterns:
            rule(pattern, 1)
        train, model = self.train, self.model
        if train.rows < 1 or train.steps < 2 or self.samples < 1 or not self.seeds:
            raise ValueError(
                "expected train.rows and samples of at least 1, train.steps of at least 2 and some"
                f" seeds, got {train.rows}, {self.samples}, {train.steps} and {self.seeds}"
            )
        if not 0 <= model.dropout < 1:
            raise ValueError(f"expected model.dropout in [0, 1), got {model.dropout}")
        if not 2 <= model.colours <= 256 or not self.temperature > 0:
            raise ValueError(
                "expected model.colours from 2 to 256 and a positive temperature, got"
                f" {model.colours} and {self.temperature}"
            )
        return self
