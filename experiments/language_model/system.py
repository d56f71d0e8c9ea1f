"""A tokenizer and a GPT that together know a text; the parameters are arguments."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from attn_jax.data.tokenizer import Tokenizer
from attn_jax.data.windows import Windows, consecutive, joined
from attn_jax.decode import Sample, pick
from attn_jax.decode.cache import Continuation
from attn_jax.models.gpt import GPT
from attn_jax.train import Sums, cross_entropy, make_evaluate
from experiments import system
from experiments.language_model.config import Config

UNFINISHED = "\ufffd"  # what the first bytes of a character are, until its last has come


class System(system.System):
    """Everything of a run that is neither text nor learned.

    Args:
      config: what was asked for.
      tokenizer: whose vocabulary the model has.

    Raises:
      ValueError: a setting of the model, the optimizer or the generation is out of its range.
    """

    def __init__(self, config: Config, tokenizer: Tokenizer):
        self.options = config.generate.options
        model = GPT(config.model.build(len(tokenizer)), rngs=nnx.Rngs(config.seed))
        super().__init__(config, tokenizer, model, config.optimizer.build(config.train.steps))
        self.longest = model.longest
        self._sums = make_evaluate(self.loss)
        self._read = jax.jit(self._start, static_argnames="length")
        self._step = jax.jit(
            lambda params, token, cache: self.model(params).step(token, cache),
            donate_argnames="cache",
        )
        self._pick = jax.jit(pick, static_argnames="options")

    def pieces(self, documents: tuple[str, ...]) -> Windows:
        """What is trained on."""
        return Windows(
            joined(self.tokenizer.encode_batch(documents)),
            length=self.config.model.context,
            rows=self.config.train.rows,
            seed=self.config.seed,
        )

    def loss(self, params: Any, batch: Any, rngs: Any) -> Sums:
        """Cross-entropy of what follows each token, summed over real tokens."""
        logits = self.model(params)(batch["inputs"], rng=rngs)
        return cross_entropy(logits, batch["labels"], smoothing=0.0)

    def judge(self, documents: tuple[str, ...]) -> Any:
        """A function of parameters to how well they know a text, which is read in pieces.

        `loss` is in nats per token, `perplexity` its exponential, and `bits_per_character` what a
        tokenizer has no part in: all nats of the text over its characters, in bits.
        """
        tokens = joined(self.tokenizer.encode_batch(documents))
        characters = sum(map(len, documents))
        rows, length = self.config.train.rows, self.config.model.context
        batches = list(consecutive(tokens, length=length, rows=rows))

        def judged(params: Any) -> dict[str, float]:
            found = self._sums(params, batches)
            bits = found["loss"] * (len(tokens) - 1) / characters / math.log(2)
            return {
                "loss": found["loss"],
                "perplexity": math.exp(found["loss"]),
                "bits_per_character": bits,
                "accuracy": found["accuracy"],
            }

        return judged

    def write(
        self, params: Any, prompt: str, options: Sample | None, rng: Any, length: int
    ) -> Iterator[str]:
        """Continues a prompt, a token at a time, to the end of a document or of the length.

        Args:
          params: of the model.
          prompt: if it is empty, a new document is begun.
          options: how to draw; None takes the most probable.
          rng: a typed key.
          length: tokens at most.

        Yields:
          What there is of text after each token, which may be nothing: a character of several
          tokens comes with its last.

        Raises:
          ValueError: the model has not so many positions.
        """
        read = np.array([self.tokenizer.encode(prompt) or [self.tokenizer.eos]], np.int32)
        written: list[int] = []
        shown = 0
        cache = self._read(params, read, length=length)
        token: Any = read[:, -1:]
        for t in range(length):
            logits, cache = self._step(params, token, cache)
            token = self._pick(logits, t, options=options, rngs=rng[None])
            if int(token[0, 0]) == self.tokenizer.eos:
                break
            written.append(int(token[0, 0]))
            text = self._after(prompt, written)
            ready = len(text) if t == length - 1 else len(text.rstrip(UNFINISHED))
            yield text[shown:ready]
            shown = max(shown, ready)

    def _after(self, prompt: str, written: list[int]) -> str:
        """The text of tokens that follow a prompt, whose first space is not a sentence's."""
        start = self.tokenizer.encode(prompt)
        return self.tokenizer.decode([*start, *written])[len(prompt) :]

    def _start(self, params: Any, prompt: jax.Array, length: int) -> Continuation:
        return Continuation.start(self.model(params), prompt, beams=1, length=length)
