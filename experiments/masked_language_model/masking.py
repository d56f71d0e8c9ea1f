"""Which tokens are hidden, and by what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attn_jax.data.rows import Batch
from attn_jax.data.tokenizer import PAD, UNK
from attn_jax.data.windows import Windows, consecutive

MASK = UNK  # no text has it
SPECIALS = UNK + 1  # ids below are no text, and are not hidden


@dataclass
class Masking:
    """How tokens are hidden: BERT's way.

    Args:
      rate: the part of the tokens that is to be said.
      masked: the part of those that the mask stands for.
      random: the part of those that another token stands for; the others stay as they are.

    Reference: Devlin et al. (2019), section 3.1 and appendix A.1.
    """

    rate: float = 0.15
    masked: float = 0.8
    random: float = 0.1

    def check(self) -> None:
        """Refuses parts that are none.

        Raises:
          ValueError: `rate` is not in (0, 1], or the others are negative or together above 1.
        """
        if not 0 < self.rate <= 1:
            raise ValueError(f"expected masking.rate in (0, 1], got {self.rate}")
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise ValueError(
                "expected masking.masked and masking.random of at least 0, together at most 1, got"
                f" {self.masked} and {self.random}"
            )

    def hide(
        self, tokens: NDArray[np.int32], vocabulary: int, seed: Sequence[int]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """What is seen of some tokens, and what is to be said.

        Args:
          tokens: any shape.
          vocabulary: v; random tokens are from `SPECIALS` to v − 1.
          seed: integers, of what is drawn.

        Returns:
          Inputs; and labels, padding where nothing is asked.

        >>> inputs, labels = Masking(0.5, 1, 0).hide(np.arange(4, 12), 12, [3])
        >>> inputs.tolist(), labels.tolist()
        ([3, 3, 6, 7, 3, 3, 3, 3], [4, 5, 0, 0, 8, 9, 10, 11])
        """
        rng = np.random.default_rng(list(seed))
        chosen, how = rng.random((2, *tokens.shape))
        asked = (tokens >= SPECIALS) & (chosen < self.rate)
        drawn = rng.integers(SPECIALS, vocabulary, tokens.shape, np.int32)
        seen = np.where(how < self.masked + self.random, drawn, tokens)
        seen = np.where(how < self.masked, np.int32(MASK), seen)
        return np.where(asked, seen, tokens), np.where(asked, tokens, np.int32(PAD))


class MaskedWindows:
    """Random pieces of a text with hidden tokens, each batch a function of its number and the seed.

    Args:
      windows: the pieces, of which the inputs are taken.
      masking: how they are hidden.
      vocabulary: v.
      seed: of what is hidden.

    Attributes:
      identity: what the pieces depend on, in a line.
    """

    def __init__(self, windows: Windows, masking: Masking, vocabulary: int, seed: int):
        self._windows, self._masking = windows, masking
        self._vocabulary, self._seed = vocabulary, seed
        self.identity = windows.identity

    def __getitem__(self, number: int) -> Batch:
        """Batch `number`, from 0."""
        batch = self._windows[number]
        seed = (self._seed, number)
        inputs, labels = self._masking.hide(batch["inputs"], self._vocabulary, seed)
        return {"inputs": inputs, "labels": labels, "index": batch["index"]}


def hidden_once(
    tokens: NDArray[np.int32], masking: Masking, vocabulary: int, *, length: int, rows: int
) -> list[Batch]:
    """A text in consecutive pieces, some of its tokens hidden, always the same ones."""
    return [
        {"inputs": inputs, "labels": labels, "index": batch["index"]}
        for number, batch in enumerate(consecutive(tokens, length=length, rows=rows))
        for inputs, labels in [masking.hide(batch["inputs"], vocabulary, (number,))]
    ]


def one_by_one(
    tokens: NDArray[np.int32], places: NDArray[np.int64], *, length: int, rows: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
    """Each of some tokens alone hidden, in the middle of a piece where there is text on both sides.

    Args:
      tokens: of a text, at least `length` of them.
      places: `n`, of the tokens.
      length: t, of a piece.
      rows: b; the last batch has copies of its last row.

    Yields:
      Pieces, `b t`, and where in each a token is hidden, `b`.
    """
    for first in range(0, len(places), rows):
        at = places[np.minimum(np.arange(first, first + rows), len(places) - 1)]
        starts = np.clip(at - length // 2, 0, len(tokens) - length)
        pieces = tokens[starts[:, None] + np.arange(length)]
        pieces[np.arange(rows), at - starts] = MASK
        yield pieces, at - starts
