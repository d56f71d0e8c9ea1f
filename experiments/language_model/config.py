"""What a run of the language model is asked for: the sections of a config file."""

from dataclasses import dataclass, field

from attn_jax.data.documents import Documents, python_reference, read_documents
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.decode import Sample
from attn_jax.models.gpt import GPTConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.train import Plan
from experiments.translate.config import Optimizer as Optimizer

UNITS = ("subword", "character")


@dataclass
class Data:
    """Text, and what of it is a token.

    Args:
      path: a UTF-8 text file, or a directory of such named `.txt`; empty for the Python language
        reference that every interpreter carries.
      heldout: the part that is held out, the last topics, files or paragraphs.
      unit: subword or character.
      vocabulary: how many subwords.
    """

    path: str = ""
    heldout: float = 0.1
    unit: str = "subword"
    vocabulary: int = 1_000

    def load(self) -> Documents:
        """The text.

        Raises:
          OSError, ValueError: it cannot be read, or is too short.
        """
        if self.unit not in UNITS:
            raise ValueError(f"no data.unit {self.unit!r}; there are {', '.join(UNITS)}")
        read = read_documents
        return read(self.path, self.heldout) if self.path else python_reference(self.heldout)

    def tokenizer(self, documents: Documents) -> Tokenizer:
        """Of the text that is trained on."""
        lines = [line for text in documents.train for line in text.split("\n")]
        if self.unit == "character":
            return Tokenizer.characters(lines)
        return Tokenizer.train(lines, self.vocabulary)


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
class Training:
    """How long it trains, and what it does meanwhile.

    Args:
      steps: batches in all.
      rows: pieces of a batch.
      log_every, evaluate_every, save_every: steps between; 0 for never but at the end.
      patience: evaluations without a new best after which to stop; 0 for never.
    """

    steps: int = 600
    rows: int = 16
    log_every: int = 50
    evaluate_every: int = 100
    save_every: int = 0
    patience: int = 0

    def plan(self) -> Plan:
        """The engine's plan; it judges by the loss of what is held out."""
        return Plan(
            steps=self.steps,
            log_every=self.log_every or self.steps,
            evaluate_every=self.evaluate_every or None,
            save_every=self.save_every or None,
            patience=self.patience or None,
        )


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
