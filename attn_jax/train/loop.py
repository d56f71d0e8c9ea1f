"""The training loop: draws, steps, logs, evaluates, saves, and goes on where it was."""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.train.checkpoints import Checkpoints, Record
from attn_jax.train.distributed import any_of, is_first, several
from attn_jax.train.identity import compare
from attn_jax.train.lock import hold
from attn_jax.train.metrics import Meter, NoRecords, Records
from attn_jax.train.pace import Pace
from attn_jax.train.peaks import peak_flops
from attn_jax.train.profile import Trace
from attn_jax.train.progress import Progress, Silent, progress
from attn_jax.train.report import Report
from attn_jax.train.signals import Interrupted, Signals, StopAsked
from attn_jax.train.standing import Plan, Run, Standing
from attn_jax.train.state import State
from attn_jax.train.step import Step
from attn_jax.train.stream import Batches

Evaluate = Callable[[State], Mapping[str, float]]


class NonFinite(FloatingPointError):
    """A loss or gradient was NaN or infinite; the state before it has been saved."""


def fit(
    state: State,
    step: Step,
    batches: Batches,
    *,
    plan: Plan,
    run: Run,
    evaluate: Evaluate | None = None,
    watch: Evaluate | None = None,
) -> tuple[State, Report]:
    """Trains until the plan is fulfilled, from the workdir's newest checkpoint if it has one.

    A run that was stopped, at any moment and by anything, and is called again ends with the same
    parameters and the same metrics.jsonl as one that never was, bit for bit on the same devices.
    SIGTERM and SIGINT finish the step, save, and raise `Interrupted`, which ends the process with
    exit code 0; a second one ends it at once. A finished run returns immediately.

    On several hosts all call this; the workdir is one that all of them see. A signal that one of
    them hears stops all at the same step: the next one that is logged or evaluated.

    Args:
      state: the state to begin with; it stays usable.
      step: of `make_step`.
      batches: an endless iterator with `get_state` and `set_state`.
      plan: when to log, evaluate, save and end.
      run: where it lives, and what it is.
      evaluate: state to numbers, one of them the plan's metric; a function of the state alone.
      watch: state to numbers that are logged besides, every `plan.watch_every` steps and at the
        end, as lines of the split "watched"; a function of the state alone.

    Returns:
      The last state, and what was done. The best state is
      `Checkpoints(run.workdir / "checkpoints").restore(report.best[0], state)`.

    Raises:
      WorkdirBusy: another run is at it.
      Mismatch: the workdir's run was begun with another config, data, tokenizer or model.
      Unreadable: there are checkpoints, and every one is broken.
      NotSaved: a checkpoint could not be written; those before it are whole.
      NonFinite: more losses or gradients in a row were not finite than the step may skip.
      Interrupted: a signal came.
    """
    for method in ("__next__", "get_state", "set_state"):
        if not hasattr(batches, method):
            raise TypeError(f"expected batches to have {method}, which {type(batches)} has not")
    workdir = Path(run.workdir)
    with contextlib.ExitStack() as stack:
        stack.enter_context(hold(workdir))
        shown = progress(plan.steps) if is_first() else Silent()
        stack.callback(shown.close)
        signals = stack.enter_context(Signals())
        checkpoints = stack.enter_context(
            Checkpoints(run.checkpoints, plan.retention, report=shown.say)
        )
        loop = _Loop(step.place(state), step, batches, plan, run, evaluate, watch)
        loop.begin(checkpoints, shown)
        stack.callback(loop.trace.stop)
        records = (
            Records(workdir, step=loop.number, evaluated=loop.standing.evaluated)
            if is_first()
            else NoRecords()
        )
        stack.callback(records.close)
        result = loop.go(checkpoints, records, shown, signals)
    if loop.stopping:
        told = signals.received.name if signals.received else "another host was told to stop"
        message = f"{told}: saved at step {loop.number}; run again to go on"
        print(message, file=sys.stderr, flush=True)
        raise Interrupted(message)
    return result


class _Loop:
    """What changes while it goes round."""

    def __init__(self, state, step, batches, plan: Plan, run: Run, evaluate, watch):
        self.state, self.step, self.batches = state, step, batches
        self.plan, self.run, self.evaluate, self.watch = plan, run, evaluate, watch
        self.standing, self.meter = Standing(), Meter()
        self.number = self.resumed_from = int(state.step)
        self.pending: list[tuple[int, np.ndarray, Any]] = []
        self.drawn_from = batches.get_state()  # where the first of the pending batches was
        self.failures = 0
        self.agreed = False
        self.pace = _pace(self.state, step)
        self.trace = Trace(Path(run.workdir) / "profile", plan.profile)

    def begin(self, checkpoints: Checkpoints, shown: Progress) -> None:
        """From the newest checkpoint, if there is one and it is this run's."""

        def check(record: Record) -> None:
            compare(record["identity"], self.run.identity, what="data or tokenizer")
            for change in self.run.check(record["config"]):
                shown.say(f"changed: {change}")

        restored = checkpoints.newest(self.state, check=check)
        if restored is None:
            return
        self.state, record = restored
        self.number = self.resumed_from = int(self.state.step)
        self.failures = int(self.state.failures)
        self.batches.set_state(record["batches"])
        self.drawn_from = self.batches.get_state()
        self.standing, self.meter = Standing.of(record["standing"]), Meter(record["meter"])
        if self._over() and not self._evaluation_due():
            shown.say(self._end)
        else:
            shown.say(f"resumed at step {self.number} of {self.plan.steps}")
        if self.plan.profile is not None and self.plan.profile <= self.number:
            shown.say(f"nothing is traced: step {self.plan.profile} has been taken before")

    def go(self, checkpoints, records, shown, signals) -> tuple[State, Report]:
        self.checkpoints, self.records, self.shown = checkpoints, records, shown
        self.signals = signals
        while True:
            evaluating = self._evaluation_due()
            if evaluating:
                self._settle()
                disposable = contextlib.nullcontext() if several() else signals.disposable()
                with contextlib.suppress(StopAsked), disposable:
                    self._evaluate()
            if evaluating or self._every(self.plan.log_every):
                self._agree()
            if evaluating or self._every(self.plan.save_every) or self._over() or self.stopping:
                self._settle()
                self._save()
            if self._over() or self.stopping:
                if self.standing.out_of_patience(self.plan) and self.number > self.resumed_from:
                    self.shown.say(self._end)
                self._end_trace()
                return self.state, self._report()
            if self.trace.begins_with(self.number + 1):
                self._settle()
                self.trace.start()
            self._take()
            if self._every(self.plan.log_every) or self.trace.ends_with(self.number):
                self._settle()
            if self.watch is not None and (self._every(self.plan.watch_every) or self._over()):
                self._settle()
                self._look()
            if self.trace.ends_with(self.number):
                self._end_trace()

    @property
    def stopping(self) -> bool:
        """Whether a signal has come: here, or to any of several hosts when they last agreed."""
        return self.agreed if several() else self.signals.received is not None

    def _agree(self) -> None:
        """Where all hosts have waited for the device anyway."""
        if several():
            self.agreed = any_of(self.signals.received is not None)

    def _take(self) -> None:
        self.pace.go()
        try:
            batch = next(self.batches)
        except StopIteration:
            raise ValueError(
                f"the batches ended after step {self.number} of {self.plan.steps}; let them repeat"
            ) from None
        except Exception as error:
            error.add_note(f"while the batch of step {self.number + 1} was drawn")
            raise
        with self.pace.step(batch), self.trace.step(self.number + 1):
            self.state, metrics = self.step(self.state, batch)
        self.number += 1
        self.pending.append((self.number, np.asarray(batch["index"]), metrics))

    def _settle(self) -> None:
        """Waits for the steps taken, and takes in what they measured."""
        fetched = jax.device_get([metrics for _, _, metrics in self.pending])
        self.pace.pause()
        for taken, ((number, index, _), metrics) in enumerate(zip(self.pending, fetched)):
            if overflow := metrics.get("overflow", False):
                self.shown.say(
                    f"step {number} skipped: its gradient overflows float16 with a loss scale of"
                    f" {metrics['loss_scale']:g}, which is halved"
                )
            else:
                self.failures = 0 if metrics["applied"] else self.failures + 1
            if self.failures > self.step.skip:
                self._stop_at(number, index, taken)
            if self.failures and not overflow:
                self.shown.say(
                    f"step {number} skipped: its loss or gradient is not finite; {_examples(index)}"
                )
            self.meter.add(metrics)
            self.pace.count(metrics)
            if number % self.plan.log_every == 0:
                self._log(number)
        self.pending, self.drawn_from = [], self.batches.get_state()

    def _log(self, number: int) -> None:
        line = self.meter.take()
        self.records.write(number, "train", line)
        timing = self.pace.lap()
        self.records.time(number, timing)
        shown = ("loss", "accuracy", "learning_rate", "gradient_norm")
        seen = {name: line[name] for name in shown if name in line}
        paces = ("tokens_per_second", "model_flop_utilisation")
        seen |= {name: timing[name] for name in paces if name in timing}
        left = (self.plan.steps - number) * timing["seconds_per_step"]
        self.shown.update(number, seen, left)

    def _evaluate(self) -> None:
        assert self.evaluate is not None
        began = time.perf_counter()
        evaluation = {name: float(x) for name, x in self.evaluate(self.state).items()}
        self.standing.judge(self.number, evaluation, self.plan)
        self.records.write(self.number, "validation", evaluation)
        self.records.time(self.number, {"evaluation_seconds": time.perf_counter() - began})
        numbers = "  ".join(f"{name} {x:.4g}" for name, x in evaluation.items())
        self.shown.say(f"validation at step {self.number}: {numbers}")

    def _look(self) -> None:
        began = time.perf_counter()
        found = {name: float(x) for name, x in self.watch(self.state).items()}
        self.records.write(self.number, "watched", found)
        self.records.time(self.number, {"watch_seconds": time.perf_counter() - began})

    def _save(self) -> None:
        record = {
            "batches": self.drawn_from,
            "standing": self.standing.plain(),
            "meter": self.meter.contents,
            "config": self.run.config,
            "identity": dict(self.run.identity),
        }
        self.checkpoints.save(self.state, record, scores=self.standing.scores)

    def _stop_at(self, number: int, index: np.ndarray, taken: int) -> None:
        """Saves the state, which has not changed since the last good step, and gives up."""
        self.batches.set_state(self.drawn_from)
        for _ in range(taken):
            next(self.batches)
        self.drawn_from = self.batches.get_state()
        self.state = dataclasses.replace(self.state, failures=jnp.zeros_like(self.state.failures))
        self.number = number - 1
        if self.number:
            self._save()
        raise NonFinite(
            f"the loss or gradient of step {number} is not finite"
            f" ({self.failures} in a row); {_examples(index)}; "
            f"the last good state is that of step {self.number}"
        )

    def _evaluation_due(self) -> bool:
        due = self._every(self.plan.evaluate_every) or self._over()
        return self.evaluate is not None and due and self.number > self.standing.evaluated

    def _every(self, interval: int | None) -> bool:
        return interval is not None and self.number > 0 and self.number % interval == 0

    def _over(self) -> bool:
        return self.number >= self.plan.steps or self.standing.out_of_patience(self.plan)

    @property
    def _end(self) -> str:
        """How it ended, in words."""
        end = f"at step {self.number} of {self.plan.steps}"
        if self.number >= self.plan.steps:
            return f"finished {end}"
        metric, waited = self.plan.metric, self.standing.waited
        return f"stopped early {end}: no better {metric} in {waited} evaluations"

    def _end_trace(self) -> None:
        if directory := self.trace.stop():
            self.shown.say(f"trace up to step {self.number}: {directory}")

    def _report(self) -> Report:
        return Report(
            status="finished" if self.number >= self.plan.steps else "stopped early",
            step=self.number,
            resumed_from=self.resumed_from,
            best=self.standing.best(self.plan),
            evaluation=self.standing.evaluation,
            tokens=self.pace.total.tokens,
            seconds=self.pace.total.seconds,
            compile_seconds=self.pace.compile_seconds,
        )


def _examples(index: np.ndarray) -> str:
    return f"its examples are {index[index >= 0].tolist()}"


def _pace(state: State, step: Step) -> Pace:
    parameters = sum(x.size for x in jax.tree.leaves(state.params))
    devices = step.layout.mesh.devices.flatten()
    peak = peak_flops(devices[0].device_kind)
    return Pace(parameters, peak and peak * len(devices))
