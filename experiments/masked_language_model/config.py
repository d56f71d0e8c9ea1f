"""What a run of the masked language model is asked for: the sections of a config file."""

from dataclasses import dataclass, field

from flax import nnx

from attn_jax import Rule, masks
from attn_jax.models.bert import Bert, BertConfig
from attn_jax.modules.blocks import BlockOptions
from experiments.masked_language_model.masking import Masking as Masking
from experiments.text import Data as Data
from experiments.text import Training as Training
from experiments.translate.config import Optimizer as Optimizer


@dataclass
class Model:
    """The BERT.

    Args:
      width: of the residual stream.
      hidden: of the feed-forward networks.
      heads, layers: how many.
      context: tokens of a piece, which are all that it reads at once.
      norm: post, as BERT's, or pre.
      neighbours: whether the first head of each layer looks at the token before alone, and the second
        at the one after; else all heads look anywhere, as BERT's.
      dropout: rate on embeddings and on the output of each sublayer.
    """

    width: int = 128
    hidden: int = 512
    heads: int = 4
    layers: int = 2
    context: int = 64
    norm: str = "post"
    neighbours: bool = True
    dropout: float = 0.1

    def build(self, vocabulary: int, seed: int) -> Bert:
        """The model with its initial parameters.

        Raises:
          ValueError: a size or rate is out of its range.
        """
        for name in ("width", "hidden", "heads", "layers", "context"):
            if (size := getattr(self, name)) < 1:
                raise ValueError(f"expected model.{name} of at least 1, got {size}")
        if self.neighbours and self.heads < 3:
            raise ValueError(
                "expected model.heads of at least 3, two of which look at neighbours, got"
                f" {self.heads}; or give --config.model.neighbours=false"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"expected model.dropout in [0, 1), got {self.dropout}")
        blocks = BlockOptions(
            width=self.width,
            hidden=self.hidden,
            heads=self.heads,
            norm=self.norm,  # type: ignore[arg-type]
            activation="gelu",
            dropout=self.dropout,
        )
        head = "masked_language_model"
        config = BertConfig(vocabulary, self.context, 1, self.layers, blocks, head=head)  # type: ignore[arg-type]
        free = [masks.everything()] * (self.heads - 2)
        near = masks.per_head([masks.band(-1, -1), masks.band(1, 1), *free])
        rule = Rule(mask=near) if self.neighbours else Rule()
        return Bert(config, rule=rule, rngs=nnx.Rngs(seed))


@dataclass
class Filling:
    """What is filled in at the end.

    Args:
      sentences: with ___ for each blank.
      top: how many candidates are shown.
    """

    sentences: tuple[str, ...] = (
        "The ___ statement is used for conditional execution.",
        'The "with" ___ is used to wrap the execution of a block.',
        "Return the ___ of the object.",
        "Raise an ___ if the name is not found.",
    )
    top: int = 5


@dataclass
class Config:
    """A run of the masked language model; see the sections.

    Args:
      seed: of parameters, pieces, masks and dropout.
      judged: tokens of the held-out text that are hidden one by one.
    """

    data: Data = field(default_factory=Data)
    masking: Masking = field(default_factory=Masking)
    model: Model = field(default_factory=Model)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Training = field(default_factory=Training)
    fill: Filling = field(default_factory=Filling)
    judged: int = 2_048
    seed: int = 0

    def check(self) -> None:
        """Refuses what is out of its range.

        Raises:
          ValueError: a number is.
        """
        self.masking.check()
        if self.judged < 1 or self.fill.top < 1:
            raise ValueError(
                f"expected judged and fill.top of at least 1, got {self.judged} and {self.fill.top}"
            )
