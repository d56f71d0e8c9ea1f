"""A tokenizer and a model that together translate text; the parameters are arguments."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from typing import Any

import jax
import numpy as np
from flax import nnx
from numpy.typing import NDArray

from attn_jax.data.tokenizer import Tokenizer
from attn_jax.decode.hypotheses import Hypotheses
from attn_jax.decode.search import Beam
from attn_jax.decode.stream import stream
from attn_jax.decode.translate import translate
from attn_jax.train import State, Sums, cross_entropy, data_mesh
from attn_jax.train.sharding import by_row, replicated
from experiments.translate.config import Config
from experiments.translate.quality import one_line


@dataclass(frozen=True)
class Translation:
    """A line and its translation.

    Args:
      source, tokens: as the model saw and wrote them, without begin and end.
      text: the translation, on one line.
      cut: how many tokens of the source were beyond what the model reads.
    """

    source: list[int]
    tokens: list[int]
    text: str
    cut: int


class System:
    """Everything of a run that is neither data nor learned.

    Args:
      config: what was asked for.
      tokenizer: whose vocabulary the model has.

    Attributes:
      beam: how translations are searched for; None for greedily.

    Raises:
      ValueError: a setting of the model, the optimizer or the decoding is out of its range.
    """

    def __init__(self, config: Config, tokenizer: Tokenizer):
        model = config.model.build(len(tokenizer), config.seed)
        self.config, self.tokenizer = config, tokenizer
        self.optimizer = config.optimizer.build(config.train.steps)
        self.mesh = data_mesh()
        self.beam = config.decode.options
        self._length, self._shapes = config.decode.length, config.decode.shapes(self.mesh.size)
        split: Any = nnx.split(model, nnx.Param, ...)
        self._graph, self._initial, self._rest = split
        self._translate = jax.jit(self._search, static_argnames="options")
        self._look = jax.jit(
            lambda params, source, inputs: self.model(params).cross_attention(source, inputs)[-1]
        )
        self._compiled: dict[Any, Callable] = {}
        self.compile_seconds = 0.0

    def model(self, params: Any) -> Any:
        """The model with some parameters in it."""
        return nnx.merge(self._graph, params, self._rest)

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(x.size for x in jax.tree.leaves(self._initial))

    def initial_state(self) -> State:
        """The state before the first step."""
        rng = jax.random.key(self.config.seed)
        return State.create(self._initial, self.optimizer, rng, ema=self.config.train.ema > 0)

    def loss(self, params: Any, batch: Any, rngs: Any) -> Sums:
        """Cross-entropy of the labels, summed over real tokens."""
        logits = self.model(params)(batch["source"], batch["inputs"], rng=rngs)
        return cross_entropy(logits, batch["labels"], smoothing=self.config.train.smoothing)

    def translate(
        self, params: Any, lines: Iterable[str], options: Beam | None, *, chunk: int = 4096
    ) -> Iterator[Translation]:
        """Translates lines, however many, each to one line; a blank one stays blank.

        Args:
          params: of the model.
          lines: text without line ends.
          options: of the beam; None searches greedily.
          chunk: how many lines are read before the first is answered.
        """
        params = jax.device_put(params, replicated(self.mesh))
        encoded, sources = tee(
            self.tokenizer.encode(line) if line.strip() else [] for line in lines
        )
        search = functools.partial(self._compiled_search, params, options)
        searched = stream(sources, search, shapes=self._shapes, chunk=chunk)
        for found, source in zip(searched, encoded):
            text = one_line(self.tokenizer.decode(found.tokens[0]))
            yield Translation(source[: len(source) - found.cut], found.tokens[0], text, found.cut)

    def cross_attention(
        self, params: Any, translations: Sequence[Translation]
    ) -> list[NDArray[np.float32]]:
        """Where the last decoder layer looks as it writes each translation: `h t s` of each.

        The finished translations are fed to the decoder again, so that each row belongs to the
        very words that were chosen: row t to the step that wrote token t, the last to that which
        wrote the end token. Only real tokens are in it, the source's end token among them.
        """
        bos, eos = self.tokenizer.bos, self.tokenizer.eos
        sources = [[*translation.source, eos] for translation in translations]
        inputs = [[bos, *translation.tokens] for translation in translations]
        weights = np.asarray(self._look(params, _padded(sources), _padded(inputs)))
        return [w[:, : len(t), : len(s)] for w, t, s in zip(weights, inputs, sources, strict=True)]

    def _search(self, params: Any, source: jax.Array, options: Beam | None) -> Hypotheses:
        return translate(self.model(params), source, options, length=self._length)

    def _compiled_search(self, params: Any, options: Beam | None, source: np.ndarray) -> Hypotheses:
        """Compiles for shapes not seen before, on a clock of its own."""
        placed = jax.device_put(source, by_row(self.mesh))
        key = (source.shape, options)
        if key not in self._compiled:
            began = time.perf_counter()
            self._compiled[key] = self._translate.lower(params, placed, options=options).compile()
            self.compile_seconds += time.perf_counter() - began
        return self._compiled[key](params, placed)


def _padded(rows: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    padded = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, tokens in zip(padded, rows):
        row[: len(tokens)] = tokens
    return padded
