"""How a run stands: its evaluations so far, and whether to go on."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_jax.train.identity import Difference, compare
from attn_jax.train.retention import Retention


@dataclasses.dataclass(frozen=True)
class Plan:
    """When a run logs, evaluates, saves and ends.

    Attributes:
      steps: batches to take in all.
      log_every: steps between lines; also how often the device is waited for.
      evaluate_every: steps between evaluations; None for one at the end. Each is saved.
      save_every: steps between further saves; None for none.
      watch_every: steps between looks at the state, where there is something to watch it.
      metric: which number of an evaluation decides what is best.
      higher_is_better: which way it improves.
      patience: evaluations in a row without a new best after which to stop; None for no limit.
      keep_latest: how many of the newest checkpoints are kept.
      keep_best: how many of the best.
      profile: the first of six steps that are traced, into the workdir's profile/; None for none.
    """

    steps: int
    log_every: int = 50
    evaluate_every: int | None = None
    save_every: int | None = None
    watch_every: int = 100
    metric: str = "loss"
    higher_is_better: bool = False
    patience: int | None = None
    keep_latest: int = 2
    keep_best: int = 1
    profile: int | None = None

    def __post_init__(self):
        for name in (
            "steps",
            "log_every",
            "evaluate_every",
            "save_every",
            "watch_every",
            "patience",
            "profile",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"expected {name} of at least 1, got {value}")

    @property
    def retention(self) -> Retention:
        """Which checkpoints are kept."""
        return Retention(self.keep_latest, self.keep_best, self.higher_is_better)


@dataclasses.dataclass(frozen=True)
class Run:
    """Where a run lives, and what it is.

    Attributes:
      workdir: holds checkpoints/, metrics.jsonl, timing.jsonl and TensorBoard's files.
      config: what it was asked for, as nested mappings of what JSON can hold.
      identity: fingerprints of what must not change under it: data, tokenizer, generator.
      free: dotted names of config that may change when it is resumed.
      defaults: a config; what a run that began before there was a field is taken to have had there.
    """

    workdir: Path
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    identity: Mapping[str, str] = dataclasses.field(default_factory=dict)
    free: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def checkpoints(self) -> Path:
        """Where its checkpoints are."""
        return Path(self.workdir) / "checkpoints"

    @property
    def begun(self) -> bool:
        """Whether there is something to go on from; a first checkpoint half written is not."""
        return any(path.name.isdecimal() for path in self.checkpoints.glob("*"))

    def require_begun(self) -> None:
        """Refuses a workdir with no checkpoint.

        Raises:
          FileNotFoundError: it has none.
        """
        if not self.begun:
            raise FileNotFoundError(f"nothing has been trained in {self.workdir}; train first")

    def check(self, config: Mapping[str, Any]) -> list[Difference]:
        """What is not as in the config it was begun with, and may be different.

        Raises:
          Mismatch: something is different that may not be; the message lists it.
        """
        return compare(config, self.config, free=self.free, defaults=self.defaults)


@dataclasses.dataclass
class Standing:
    """The evaluations so far.

    Attributes:
      evaluated: step of the last one.
      evaluation: its numbers.
      scores: step to score, of all of them.
      waited: how many there were since the best.
    """

    evaluated: int = 0
    evaluation: dict[str, float] = dataclasses.field(default_factory=dict)
    scores: dict[int, float] = dataclasses.field(default_factory=dict)
    waited: int = 0

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Standing":
        """From what `plain` made, which JSON may have held."""
        return cls(**{**plain, "scores": {int(step): x for step, x in plain["scores"]}})

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**dataclasses.asdict(self), "scores": sorted(self.scores.items())}

    def judge(self, step: int, evaluation: Mapping[str, float], plan: Plan) -> None:
        """Takes an evaluation in; a score that is NaN is worse than any.

        Raises:
          ValueError: the plan's metric is not in it.

        >>> standing, plan = Standing(), Plan(steps=9, metric="bleu", higher_is_better=True)
        >>> for step, bleu in enumerate([3.0, 9.0, 9.0, 4.0]):
        ...     standing.judge(step, {"bleu": bleu}, plan)
        >>> standing.best(plan), standing.waited
        ((1, 9.0), 2)
        """
        if plan.metric not in evaluation:
            raise ValueError(
                f"expected the evaluation to have {plan.metric!r}, by which the plan judges, "
                f"got {sorted(evaluation)}"
            )
        score = float(evaluation[plan.metric])
        if math.isnan(score):
            score = -math.inf if plan.higher_is_better else math.inf
        self.evaluated, self.evaluation = step, dict(evaluation)
        self.scores[step] = score
        is_best = self.best(plan) == (step, score)
        self.waited = 0 if is_best else self.waited + 1

    def best(self, plan: Plan) -> tuple[int, float] | None:
        """The best step and its score; the earliest of equals."""
        best = Retention(1, 1, plan.higher_is_better).best_of(self.scores)
        return (best[0], self.scores[best[0]]) if best else None

    def out_of_patience(self, plan: Plan) -> bool:
        """Whether to stop early."""
        return plan.patience is not None and self.waited >= plan.patience
