"""A tokenizer and a model that together translate text; the parameters are arguments."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, tee
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from attn_jax.data.evaluation import evaluation_batches
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.decode.hypotheses import Hypotheses
from attn_jax.decode.score import Scores, score
from attn_jax.decode.search import Beam, Sample
from attn_jax.decode.stream import stream
from attn_jax.decode.translate import translate
from attn_jax.train import Precision, State, Sums, cross_entropy
from experiments import system
from experiments.translate.config import Config
from experiments.translate.published import PublishedTokenizer
from experiments.translate.quality import one_line

CHUNK = 4096
"""How many lines are read before the first is answered."""


@dataclass(frozen=True)
class Translation:
    """A line and a translation of it.

    Args:
      source, tokens: as the model saw and wrote them, without begin and end.
      text: the translation, on one line.
      cut: how many tokens of the source were beyond what the model reads.
      score: what the search ranked it by.
      log_probability: natural, the model's.
    """

    source: list[int]
    tokens: list[int]
    text: str
    cut: int = 0
    score: float = 0.0
    log_probability: float = 0.0


@dataclass(frozen=True)
class Scored:
    """How probable a given translation is.

    Args:
      log_probability: natural, of the whole target and its end, given the source.
      tokens: of the target, the end counted.
      cut: how many tokens of source and target were beyond what the model reads.
    """

    log_probability: float
    tokens: int
    cut: tuple[int, int] = (0, 0)


class System(system.System):
    """A translator, and everything of its run that is neither data nor learned.

    Args:
      config: what was asked for.
      tokenizer: whose vocabulary the model has.

    Attributes:
      name: of the model.
      search: how translations are searched for or drawn; None for greedily.

    Raises:
      ValueError: a setting of the model, the optimizer, the mesh or the decoding is out of its
        range.
    """

    def __init__(self, config: Config, tokenizer: Tokenizer | PublishedTokenizer):
        self.layout = config.mesh.layout(config.model)
        model = config.model.build(len(tokenizer), config.seed)
        self.name = type(model).__name__
        super().__init__(config, tokenizer, model, config.optimizer.build(config.train.steps))
        self.search = config.decode.options
        if config.decode.coverage_penalty and not hasattr(model, "step_and_look"):
            raise ValueError(
                f"decode.coverage_penalty is for models that look at their source; {self.name} does"
                " not: leave it at 0"
            )
        most = config.decode.longest
        if getattr(config.model, "positions", "") == "learned" and config.model.longest < most:
            raise ValueError(
                f"model.longest={config.model.longest} positions are learned, and decode.longest={most}"
                " asks for more: give one of them the value of the other"
            )
        self.precision = Precision(config.train.precision)  # type: ignore[arg-type]
        self._length, self._shapes = config.decode.length, config.decode.shapes(self.layout.rows)
        # What is looked at on the host is whole on every one of them.
        jit = functools.partial(jax.jit, out_shardings=self.layout.whole)
        self._translate = jit(self._search, static_argnames="options")
        self._score = jit(self._scores)
        self._look = jit(
            lambda params, source, inputs: self._model(params).cross_attention(source, inputs)[-1]
        )
        self._compiled: dict[Any, Callable] = {}
        self.compile_seconds = 0.0

    def _model(self, params: Any) -> Any:
        """The model inside a compiled program, with parameters that lie where the layout says."""
        return self.model(self.layout.gathered(params))

    def _placed(self, params: Any) -> Any:
        return jax.device_put(params, self.layout.shardings(params))

    def initial_state(self) -> State:
        """The state before the first step."""
        rng = jax.random.key(self.config.seed)
        ema = self.config.train.ema > 0
        return State.create(self._initial, self.optimizer, rng, ema=ema, precision=self.precision)

    def loss(self, params: Any, batch: Any, rngs: Any) -> Sums:
        """Cross-entropy of the labels, summed over real tokens."""
        packed: dict[str, Any] = {}
        if "source_segments" in batch:
            packed["segments"] = batch["source_segments"], batch["target_segments"]
        logits = self.model(params)(batch["source"], batch["inputs"], rng=rngs, **packed)
        return cross_entropy(logits, batch["labels"], smoothing=self.config.train.smoothing)

    def translate(
        self,
        params: Any,
        lines: Iterable[str],
        options: Beam | Sample | None,
        *,
        chunk: int = CHUNK,
    ) -> Iterator[Translation]:
        """The best translation of each line; arguments as of :meth:`n_best`."""
        return (best for best, *_ in self.n_best(params, lines, options, chunk=chunk))

    def n_best(
        self,
        params: Any,
        lines: Iterable[str],
        options: Beam | Sample | None,
        *,
        chunk: int = CHUNK,
    ) -> Iterator[list[Translation]]:
        """Translates lines, however many, each to one line; a blank one stays blank.

        Args:
          params: of the model.
          lines: text without line ends.
          options: of the beam or the draws, and how many translations of a line; None searches
            greedily.
          chunk: how many lines are read before the first is answered; 1 answers each at once.

        Yields:
          For each line its translations, at least one, best first; as they come where they are
          drawn.
        """
        params = self._placed(params)
        encoded, sources = tee(self._encode(line) for line in lines)
        search = functools.partial(self._compiled_search, params, options)
        shapes = self._shapes if chunk > 1 else replace(self._shapes, tokens=1)
        for found, source in zip(stream(sources, search, shapes=shapes, chunk=chunk), encoded):
            yield [
                Translation(
                    source[: len(source) - found.cut],
                    tokens,
                    one_line(self.tokenizer.decode(tokens)),
                    found.cut,
                    *scores,
                )
                for tokens, *scores in zip(found.tokens, found.scores, found.log_probabilities)
            ]

    def score(
        self, params: Any, pairs: Iterable[tuple[str, str]], *, chunk: int = CHUNK
    ) -> Iterator[Scored]:
        """How probable each target is, given its source.

        Args:
          params: of the model.
          pairs: text without line ends; where a side is blank, it is the empty sentence.
          chunk: how many pairs are read before the first is answered.
        """
        params = self._placed(params)
        pairs, longest = iter(pairs), self._shapes.longest
        while some := list(islice(pairs, chunk)):
            whole = [[self._encode(text) for text in side] for side in zip(*some)]
            read = [[tokens[: longest - 1] for tokens in side] for side in whole]
            found: list[Any] = [None] * len(some)
            rows = self._shapes.rows(longest)
            for batch in evaluation_batches(*read, rows=rows, longest=longest):
                scores = self._score(params, self.layout.place_rows(batch))
                for i, total, count in zip(batch["index"], scores.total, scores.lengths):
                    if i >= 0:
                        source, target = (len(a[i]) - len(b[i]) for a, b in zip(whole, read))
                        found[i] = Scored(float(total), int(count), (source, target))
            yield from found

    def forced(self, source: str, target: str) -> Translation:
        """A given translation, as if the model had written it."""
        read, written = self._encode(source), self._encode(target)
        most = self._shapes.longest - 1
        cut = max(0, len(read) - most)
        return Translation(read[:most], written[:most], one_line(target), cut)

    @property
    def attends(self) -> bool:
        """Whether the model looks at the source, so that there is something to draw."""
        return hasattr(self.model(self._initial), "cross_attention")

    def cross_attention(
        self, params: Any, translations: Sequence[Translation]
    ) -> list[NDArray[np.float32]]:
        """Where the last decoder layer looks as it writes each translation: `h t s` of each.

        The finished translations are fed to the decoder again, so that each row belongs to the
        very words that were chosen: row t to the step that wrote token t, the last to that which
        wrote the end token. Only real tokens are in it, the source's end token among them.
        """
        bos, eos = self.tokenizer.bos, self.tokenizer.eos
        params, found = self._placed(params), []
        for translation in translations:
            sides = [*translation.source, eos], [bos, *translation.tokens]
            source, inputs = (self._row(side) for side in sides)
            weights = np.asarray(self._look(params, source, inputs))[0]
            found.append(weights[:, : len(sides[1]), : len(sides[0])])
        return found

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text) if text.strip() else []

    def _row(self, tokens: Sequence[int]) -> NDArray[np.int32]:
        """A batch of one row, padded to one of the few widths that are compiled for."""
        row = np.zeros((1, max(self._shapes.width(len(tokens)), len(tokens))), np.int32)
        row[0, : len(tokens)] = tokens
        return row

    def _scores(self, params: Any, batch: Mapping[str, jax.Array]) -> Scores:
        return score(self._model(params)(batch["source"], batch["inputs"]), batch["labels"])

    def _search(self, params: Any, source: jax.Array, options: Beam | Sample | None) -> Hypotheses:
        rngs = self._keys(source) if isinstance(options, Sample) else None
        return translate(self._model(params), source, options, length=self._length, rngs=rngs)

    def _keys(self, source: jax.Array) -> jax.Array:
        """A key of each row's own tokens, wherever it stands and however it is padded."""
        key = jax.random.key(self.config.decode.seed)

        def fold(keys: jax.Array, tokens: jax.Array) -> tuple[jax.Array, None]:
            folded = jax.vmap(jax.random.fold_in)(keys, tokens)
            return jax.numpy.where(tokens == self.tokenizer.pad, keys, folded), None

        return jax.lax.scan(fold, jax.numpy.broadcast_to(key, source.shape[:1]), source.T)[0]

    def _compiled_search(
        self, params: Any, options: Beam | Sample | None, source: np.ndarray
    ) -> Hypotheses:
        """Compiles for shapes not seen before, on a clock of its own."""
        placed = self.layout.place_rows(source)
        key = (source.shape, options)
        if key not in self._compiled:
            began = time.perf_counter()
            self._compiled[key] = self._translate.lower(params, placed, options=options).compile()
            self.compile_seconds += time.perf_counter() - began
        return self._compiled[key](params, placed)
