"""What a translation run is asked for: the sections of a config file."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import optax

from attn_jax.decode.search import Beam, Sample
from attn_jax.decode.stream import Shapes
from attn_jax.decode.translate import TargetLength
from attn_jax.modules.logical_axes import LOGICAL_AXES
from attn_jax.train import (
    Layout,
    Plan,
    adamw,
    constant,
    cosine,
    device_mesh,
    inverse_square_root,
    linear,
)
from attn_jax.train import Optimizer as Updates
from experiments.translate.corpora import Phrases
from experiments.translate.models import Model as Model
from experiments.translate.models import Published as Published
from experiments.translate.models import Recurrent as Recurrent

LARGEST_BEAM = 1_000


@dataclass
class Batching:
    """How pairs are put together.

    Args:
      tokens: cells of a batch, padding included, on its longer side.
      longest: pairs with a longer side, in tokens, are left out of training.
      buckets: how many shapes there may be.
      packed: whether rows of `longest` tokens hold several pairs, which do not see each other; then
        there is one shape. For the Transformer.
      divisor: rows are a multiple of this; let the hosts divide it, and the devices that share rows.
    """

    tokens: int = 2048
    longest: int = 128
    buckets: int = 8
    packed: bool = False
    divisor: int = 8


@dataclass
class Mesh:
    """How the devices of all hosts share the work; the sizes multiply to their number.

    Args:
      data: parts of the rows of a batch; -1 for what the others leave.
      fsdp: further parts of the rows, which share out parameters and optimiser state, too.
      tensor: parts of heads, feed-forward units and vocabulary.
      context: parts of the length, where it divides it.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1
    context: int = 1

    def layout(self, model: Any) -> Layout:
        """Where the arrays of a run live.

        Raises:
          ValueError: there are not so many devices, or a size of the model cannot be shared so.
        """
        layout = Layout(device_mesh(**asdict(self)), LOGICAL_AXES)
        if isinstance(model, Model):
            for use, name in (("heads", "heads"), ("mlp", "hidden"), ("embed", "width")):
                layout.check(use, getattr(model, name), f"model.{name}")
        return layout


@dataclass
class Optimizer:
    """Adam and its learning rate.

    Args:
      learning_rate: the largest.
      schedule: inverse_square_root, cosine, linear or constant, after the warm-up.
      warmup: updates until the largest rate.
      b1, b2, epsilon: Adam's.
      decay: of weights; 0 for none.
      clip: the gradient's largest norm; 0 for any.
    """

    learning_rate: float = 2e-3
    schedule: str = "inverse_square_root"
    warmup: int = 200
    b1: float = 0.9
    b2: float = 0.98
    epsilon: float = 1e-9
    decay: float = 0.0
    clip: float = 1.0

    def build(self, steps: int) -> Updates:
        """The optimiser for a run of some steps.

        Raises:
          ValueError: a number is out of its range, or there is no such schedule.
        """
        if not 0 <= self.learning_rate < math.inf:
            raise ValueError(
                f"expected optimizer.learning_rate of at least 0, got {self.learning_rate}"
            )
        schedules: dict[str, Any] = {
            "inverse_square_root": lambda: inverse_square_root(self.learning_rate, self.warmup),
            "cosine": lambda: cosine(self.learning_rate, self.warmup, steps),
            "linear": lambda: linear(self.learning_rate, self.warmup, steps),
            "constant": lambda: constant(self.learning_rate, self.warmup),
        }
        if self.schedule not in schedules:
            known = ", ".join(schedules)
            raise ValueError(f"no schedule {self.schedule!r}; there are {known}")
        if self.schedule in ("cosine", "linear") and not 0 <= self.warmup < steps:
            raise ValueError(
                f"a {self.schedule} decay begins after the warm-up: optimizer.warmup is {self.warmup}, "
                f"train.steps is {steps}; give --config.optimizer.warmup={max(0, steps // 10)}, say"
            )
        schedule: optax.Schedule = schedules[self.schedule]()
        return adamw(
            schedule,
            b1=self.b1,
            b2=self.b2,
            epsilon=self.epsilon,
            decay=self.decay,
            clip=self.clip or None,
        )


@dataclass
class Training:
    """How long it trains, and what it does meanwhile.

    Args:
      steps: batches in all.
      smoothing: of labels.
      ema: decay of the average of parameters that is evaluated; 0 evaluates the last ones.
      precision: that the model trains in: float32, bfloat16 or float16; parameters and their moments
        are float32 in any case.
      accumulate: parts that a batch is cut into, for memory.
      skip: how many steps in a row may be passed over because their loss or gradient is not finite.
      log_every, evaluate_every, save_every: steps between; 0 for never but at the end.
      validation: sentences of the validation split to evaluate on; 0 for all.
      patience: evaluations without a new best BLEU after which to stop; 0 for never.
      keep: how many of the best checkpoints are kept, for `decode.average`.
      verdicts: sentences of the validation split by which heads are judged every 100 steps; 0 for
        none.
      pictured: translations of the test whose attention is on the page at the end; 0 for none.
    """

    steps: int = 1_000
    smoothing: float = 0.1
    ema: float = 0.0
    precision: str = "float32"
    accumulate: int = 1
    skip: int = 0
    log_every: int = 50
    evaluate_every: int = 200
    save_every: int = 0
    validation: int = 0
    patience: int = 0
    keep: int = 1
    verdicts: int = 0
    pictured: int = 3

    def plan(self, *, evaluates: bool) -> Plan:
        """The engine's plan; it judges by BLEU if there is something to evaluate on.

        Raises:
          ValueError: a number is out of its range.
        """
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"expected train.smoothing in [0, 1), got {self.smoothing}")
        for name in ("validation", "verdicts", "pictured"):
            if (count := getattr(self, name)) < 0:
                raise ValueError(f"expected train.{name} of at least 0, got {count}")
        if self.keep < 1:
            raise ValueError(f"expected train.keep of at least 1, got {self.keep}")
        return Plan(
            steps=self.steps,
            log_every=self.log_every or self.steps,
            evaluate_every=(self.evaluate_every or None) if evaluates else None,
            save_every=self.save_every or None,
            metric="bleu",
            higher_is_better=True,
            patience=self.patience or None,
            keep_best=self.keep,
        )


@dataclass
class Decoding:
    """How it translates.

    Args:
      beam: hypotheses alive at a time; 1 searches greedily.
      length_penalty, coverage_penalty: alpha and beta of Wu et al. (2016).
      temperature: above 0, translations are drawn instead of searched for: `--nbest=N` draws N, at
        most `beam`. The draws of a line depend on its words and on `seed` alone.
      top_k, top_p: what is drawn from; 0 and 1 draw from all.
      seed: of the draws.
      ratio, extra, longest: a translation has at most ratio · source + extra tokens, and at most
        `longest`; so has a source, and what is beyond is cut.
      tokens: cells of a batch of sources; two CPU cores were fastest with 1,024, and accelerators
        want more.
      average: of how many of the best checkpoints the parameters are averaged; see `train.keep`.
    """

    beam: int = 4
    length_penalty: float = 0.6
    coverage_penalty: float = 0.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    ratio: float = 2.0
    extra: int = 10
    longest: int = 256
    tokens: int = 1024
    average: int = 1

    @property
    def options(self) -> Beam | Sample | None:
        """Of the search, or of the draws; None for greedy.

        Raises:
          ValueError: the beam is empty, or larger than any memory; a number is out of its range; or
            no checkpoint is averaged.
        """
        least = {
            "beam": 1,
            "average": 1,
            "tokens": 1,
            "longest": 2,
            "extra": 0,
            "ratio": 0,
            "length_penalty": 0,
            "coverage_penalty": 0,
            "temperature": 0,
            "top_k": 0,
        }
        for name, low in least.items():
            value = getattr(self, name)
            if not low <= value < math.inf:
                raise ValueError(f"expected decode.{name} of at least {low}, got {value}")
        if self.beam > LARGEST_BEAM:
            raise ValueError(f"expected decode.beam of at most {LARGEST_BEAM}, got {self.beam}")
        if not self.temperature and (self.top_k or self.top_p != 1):
            raise ValueError(
                "decode.top_k and decode.top_p are for draws: give decode.temperature=1.0 as well"
            )
        if self.temperature:
            top_p = None if self.top_p == 1 else self.top_p
            return Sample(self.temperature, self.top_k or None, top_p)
        if self.beam == 1 and not self.coverage_penalty:
            return None
        return Beam(self.beam, self.length_penalty, coverage_penalty=self.coverage_penalty)

    @property
    def length(self) -> TargetLength:
        """How long translations may become."""
        return TargetLength(self.ratio, self.extra, self.longest)

    def shapes(self, devices: int) -> Shapes:
        """Of the batches of sources; as beams grow, batches shrink."""
        tokens = self.tokens // max(1, self.beam // 8)
        return Shapes(max(1, tokens), self.longest, divisor=devices)


@dataclass
class Config:
    """A translation run.

    Args:
      data: one of the classes of `experiments.translate.corpora`.
      vocabulary: entries of the subword vocabulary that both languages share; a published model has
        its own.
      model: one of the classes of `experiments.translate.models`.
      mesh: of the devices; it may change when a run goes on.
      seed: of parameters, order and dropout.
    """

    data: Any = field(default_factory=Phrases)
    vocabulary: int = 4_000
    model: Any = field(default_factory=Model)
    mesh: Mesh = field(default_factory=Mesh)
    batches: Batching = field(default_factory=Batching)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Training = field(default_factory=Training)
    decode: Decoding = field(default_factory=Decoding)
    seed: int = 0
