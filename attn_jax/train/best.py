"""What a run has come to: its best states."""

from typing import Any

from attn_jax.train.checkpoints import Checkpoints, Record, Unreadable
from attn_jax.train.identity import compare
from attn_jax.train.standing import Run
from attn_jax.train.state import State


def best_states(run: Run, like: State, count: int = 1) -> list[State]:
    """The states of a run's best evaluations, best first; the newest where there were none.

    A broken checkpoint is reported on stderr, and the next best taken for it.

    Args:
      run: where it lives, what its config is to be, and what of that may be different; of the
        identity it was trained with, what is named here is compared.
      like: a state of the same structure; its arrays say the shardings of the result.
      count: how many at most; fewer are there if the run kept fewer.

    Returns:
      At least one state.

    Raises:
      FileNotFoundError: nothing has been trained there.
      Mismatch: it was trained as something else, or its arrays are not those of `like`.
      Unreadable: there are checkpoints, and every one is broken.
    """

    def check(record: Record) -> None:
        trained_with: dict[str, Any] = {name: record["identity"].get(name) for name in run.identity}
        compare(trained_with, run.identity, what=" or ".join(run.identity))
        run.check(record["config"])

    run.require_begun()
    states: list[State] = []
    with Checkpoints(run.checkpoints) as checkpoints:
        for step in checkpoints.best_steps(len(checkpoints.steps())):
            if len(states) == count:
                break
            try:
                states.append(checkpoints.restore(step, like, check=check)[0])
            except Unreadable as error:
                checkpoints.report(f"{error}; it is not among the best")
        if not states and (found := checkpoints.newest(like, check=check)):
            states.append(found[0])
    return states
