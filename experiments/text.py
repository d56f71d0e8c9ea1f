"""What models of a text are asked for alike: the text, and how long they train on it."""

from dataclasses import dataclass

from attn_jax.data.documents import Documents, python_reference, read_documents
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.train import Plan

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
