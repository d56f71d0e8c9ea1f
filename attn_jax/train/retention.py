"""Which checkpoints are worth their room on the disk."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Retention:
    """Which checkpoints are kept: the newest, and those with the best scores.

    Attributes:
      latest: how many of the newest; two, so that one is there if the other is broken.
      best: how many of the best by score.
      higher_is_better: which way scores improve.
    """

    latest: int = 2
    best: int = 1
    higher_is_better: bool = True

    def __post_init__(self):
        if self.latest < 1 or self.best < 0:
            raise ValueError(
                f"expected latest >= 1 and best >= 0, got {self.latest} and {self.best}"
            )

    def best_of(self, scores: Mapping[int, float]) -> list[int]:
        """The steps with the best scores, best first; of equal ones the earlier.

        >>> Retention(best=2).best_of({10: 3.0, 20: 9.0, 30: 5.0, 40: 4.0})
        [20, 30]
        """
        sign = -1 if self.higher_is_better else 1
        return sorted(scores, key=lambda step: (sign * scores[step], step))[: self.best]
