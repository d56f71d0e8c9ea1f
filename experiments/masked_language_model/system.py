"""A tokenizer and a BERT that together know a text; the parameters are arguments."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_jax.data.tokenizer import PAD, Tokenizer
from attn_jax.data.windows import Windows, joined
from attn_jax.functional import masks
from attn_jax.train import Sums, cross_entropy, make_evaluate
from experiments import system
from experiments.masked_language_model.config import Config
from experiments.masked_language_model.masking import (
    MASK,
    SPECIALS,
    MaskedWindows,
    hidden_once,
    one_by_one,
)

BLANK = "___"
STAND_IN = "\ue000"  # for a blank in what is encoded: of private use, and so in no text


class System(system.System):
    """Everything of a run that is neither text nor learned.

    Args:
      config: what was asked for.
      tokenizer: whose vocabulary the model has; its unknown token, which no text has, is the mask.

    Raises:
      ValueError: a setting of the masking, the model or the optimizer is out of its range.
    """

    def __init__(self, config: Config, tokenizer: Tokenizer):
        config.check()
        model = config.model.build(len(tokenizer), config.seed)
        super().__init__(config, tokenizer, model, config.optimizer.build(config.train.steps))
        self._sums = make_evaluate(self.loss)
        self._at = jax.jit(self._logarithms)

    def tokens(self, documents: tuple[str, ...]) -> NDArray[np.int32]:
        """Documents in one sequence."""
        return joined(self.tokenizer.encode_batch(documents))

    def pieces(self, documents: tuple[str, ...]) -> MaskedWindows:
        """What is trained on."""
        config = self.config
        windows = Windows(
            self.tokens(documents),
            length=config.model.context,
            rows=config.train.rows,
            seed=config.seed,
        )
        return MaskedWindows(windows, config.masking, len(self.tokenizer), config.seed)

    def loss(self, params: Any, batch: Any, rngs: Any) -> Sums:
        """Cross-entropy of the hidden tokens, summed."""
        inputs = batch["inputs"]
        logits = self.model(params)(inputs, mask=masks.valid(inputs != PAD), rng=rngs)
        return cross_entropy(logits, batch["labels"], smoothing=0.0)

    def judge(self, documents: tuple[str, ...]) -> Any:
        """A function of parameters to how well hidden tokens of a text are said: loss, accuracy."""
        length, rows = self.config.model.context, self.config.train.rows
        batches = hidden_once(
            self.tokens(documents),
            self.config.masking,
            len(self.tokenizer),
            length=length,
            rows=rows,
        )

        def judged(params: Any) -> dict[str, float]:
            found = self._sums(params, batches)
            return {"loss": found["loss"], "accuracy": found["accuracy"]}

        return judged

    def places(self, tokens: NDArray[np.int32]) -> NDArray[np.int64]:
        """Those of the tokens that are hidden one by one, evenly over a text, not at its ends."""
        inside = np.flatnonzero(tokens[1:-1] >= SPECIALS) + 1
        count = min(self.config.judged, len(inside))
        return inside[np.linspace(0, len(inside) - 1, count).astype(int)]

    def one_by_one(
        self, params: Any, tokens: NDArray[np.int32], places: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The logarithms of what each token is, that token alone hidden: `n v`.

        Raises:
          ValueError: the text is shorter than a piece.
        """
        length = self.config.model.context
        if len(tokens) < length:
            raise ValueError(
                f"expected at least model.context, {length}, tokens to be held out, got"
                f" {len(tokens)}: give more text, or a smaller context"
            )
        batches = one_by_one(tokens, places, length=length, rows=64)
        found = [np.asarray(self._at(params, *batch)) for batch in batches]
        return np.concatenate(found)[: len(places)]

    def blanks(self, sentence: str) -> NDArray[np.int32]:
        """A sentence's tokens, `1 t`, the mask for each blank.

        Raises:
          ValueError: there is no blank, or there are more tokens than the model reads.
        """
        if BLANK not in sentence:
            raise ValueError(f"expected a sentence with {BLANK} for what is missing: {sentence!r}")
        space, *mark = self.tokenizer.encode(STAND_IN)
        ids = self.tokenizer.encode(sentence.strip().replace(BLANK, STAND_IN))
        found: list[int] = []
        for token in ids:
            found.append(token)
            if found[-len(mark) :] == mark:  # with the space before it, which a word begins with
                del found[-len(mark) :]
                if found and found[-1] == space:
                    del found[-1]
                found.append(MASK)
        framed = [self.tokenizer.eos, *found, self.tokenizer.eos]
        if len(framed) > self.config.model.context:
            raise ValueError(
                f"{len(framed)} tokens, but the model reads {self.config.model.context}: {sentence!r}"
            )
        return np.array([framed], np.int32)

    def candidates(self, params: Any, sentence: str) -> list[list[tuple[str, float]]]:
        """For each blank of a sentence, the most probable tokens and their probabilities."""
        ids = self.blanks(sentence)
        places = np.flatnonzero(ids[0] == MASK)
        padded = np.pad(ids, ((0, 0), (0, self.config.model.context - ids.shape[1])))
        known = self._at(params, np.repeat(padded, len(places), 0), places)
        tops = jax.lax.top_k(jnp.exp(known), self.config.fill.top)
        return [
            list(zip(self.tokenizer.pieces(tokens), map(float, p)))
            for p, tokens in zip(*map(np.asarray, tops))
        ]

    def _logarithms(self, params: Any, inputs: jax.Array, places: jax.Array) -> jax.Array:
        """Of the probabilities of tokens at a place of each row, `b v`; none for what is no text."""
        logits = self.model(params)(inputs, mask=masks.valid(inputs != PAD))
        at = jnp.take_along_axis(logits, places[:, None, None], 1)[:, 0]
        return jax.nn.log_softmax(jnp.where(jnp.arange(at.shape[-1]) < SPECIALS, -jnp.inf, at))
