"""What a call to `fit` did, in numbers."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Report:
    """What a call to `fit` did.

    Attributes:
      status: "finished", or "stopped early" where patience ran out.
      step: the last step.
      resumed_from: the step at which this call began.
      best: step and score of the best evaluation, or None.
      evaluation: the numbers of the last evaluation.
      tokens: real target tokens trained on by this call.
      seconds: its time in training steps, without compiling, evaluating and saving.
      compile_seconds: its time in compiling steps.
    """

    status: str
    step: int
    resumed_from: int
    best: tuple[int, float] | None
    evaluation: dict[str, float]
    tokens: int
    seconds: float
    compile_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens per second of training."""
        return self.tokens / self.seconds if self.seconds else 0.0
