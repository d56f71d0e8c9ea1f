"""Run by resume_test.py in processes that it kills: one run of the tiny model, gone on with.

The batches are those of sentences in two lengths, so that there are two programs; the plan stops
early, by a score that is a function of the step alone.
"""

import os
import time
from pathlib import Path

import jax
import numpy as np
import tiny

from attn_jax import train
from attn_jax.data.batches import Batches

STOPS_AT = 90


def batches():
    """Sixty sentences in two buckets: an epoch is eleven batches."""
    random = np.random.default_rng(2)
    sides = [
        [random.integers(4, tiny.VOCABULARY, length).tolist() for length in lengths]
        for lengths in random.integers(1, 9, (2, 60))
    ]
    return Batches(*sides, tokens=48, buckets=2, seed=5, divisor=4)


def judged(step):
    """The best at step 48; from there on a new best never comes."""
    return float(min(step, 48))


def run(workdir: str, cache: str, said, devices: int = 1, stuck_at: int | None = None) -> None:
    """Trains to the end, if it is let.

    Args:
      workdir: of the run.
      cache: where compiled programs are kept.
      said: a connection that is told of every batch: its number and its examples.
      devices: how many to simulate.
      stuck_at: a batch that never comes.
    """
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    source = iter(batches())

    class Told:
        get_state, set_state = source.get_state, source.set_state

        def __next__(self):
            batch = next(source)
            said.send((source.batch, batch["index"].tolist()))
            if source.batch == stuck_at:
                time.sleep(600)
            return batch

    step = train.make_step(tiny.loss, tiny.optimizer(), accumulate=2)
    evaluate = train.make_evaluate(tiny.loss)
    held_out = [batches()[0]]
    state, report = train.fit(
        tiny.state(ema=True),
        step,
        Told(),
        plan=train.Plan(
            1000, log_every=3, evaluate_every=6, save_every=2, metric="judged", patience=7,
            higher_is_better=True,
        ),
        run=train.Run(Path(workdir), identity={"batches": batches().identity}),
        evaluate=lambda state: {
            "judged": judged(int(state.step)), **evaluate(state.averaged, held_out)
        },
    )  # fmt: skip
    arrays = jax.tree_util.tree_leaves_with_path((state.params, state.opt_state, state.ema))
    named = {jax.tree_util.keystr(path): np.asarray(array) for path, array in arrays}
    np.savez(Path(workdir, "final.npz"), status=report.status, **named)
