"""What a backend is: a way to evaluate a rule, which says what it cannot do."""

from __future__ import annotations

from attn_jax.backends.problem import Problem
from attn_jax.functional.value import Array, Value


class Backend(Value):
    """One way of evaluating an attention problem."""

    @property
    def name(self) -> str:
        """The name it is asked for by."""
        return type(self).__name__

    def refuses(self, problem: Problem) -> str | None:
        """Why it cannot do this problem, in words that say what would help; None if it can."""
        raise NotImplementedError

    def suits(self, problem: Problem) -> bool:
        """Whether "auto" should take it, where it accepts."""
        return True

    def cost(self, problem: Problem) -> str:
        """What evaluating it takes, in words."""
        raise NotImplementedError

    def attend(self, problem: Problem) -> Array:
        """The weighted sums of the values, `*b t h e`."""
        raise NotImplementedError

    def attend_with_lse(self, problem: Problem) -> tuple[Array, Array]:
        """The same and the log-sum-exp of the scores, `*b h t`, for a softmax."""
        raise NotImplementedError
