"""What a run leaves in its workdir, and how another finds it there."""

import contextlib
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from attn_jax.data.files import write_atomically
from attn_jax.data.splits import Corpus
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.train import Checkpoints, State, average, compare, hold
from attn_jax.train.distributed import is_first
from attn_jax.train.metrics import whole_lines
from experiments.translate.config import Config
from experiments.translate.system import System

MAY_CHANGE = frozenset(
    {
        "decode",
        "data.directory",
        "data.cache",
        "mesh",
        "optimizer.learning_rate",
        "train.steps",
        "train.patience",
        "train.keep",
        "train.log_every",
        "train.evaluate_every",
        "train.save_every",
        "train.verdicts",
        "train.pictured",
    }
)
"""What may be different when a run goes on."""

_ONLY_TRAINING = frozenset({"batches", "optimizer", "train", "seed"})


class Workdir:
    """The files of a run.

    Args:
      path: the directory; it need not be there.
    """

    def __init__(self, path: Path):
        self.path = path
        self.config = path / "config.json"
        self.tokenizer = path / "tokenizer.model"
        self.checkpoints = path / "checkpoints"
        self.hypotheses = path / "hypotheses.txt"
        self.references = path / "references.txt"
        self.result = path / "result.json"
        self.pictures = path / "attention"
        self.lengths = path / "bleu-by-length.png"
        self.page = path / "report.html"

    def begin(self, config: Config, corpus: Corpus) -> Tokenizer:
        """Makes the workdir this config's, and its tokenizer; both are kept when it goes on.

        Before the first checkpoint nothing is there to go on from, and both are made anew.

        Raises:
          Mismatch: it was made by another config; the message lists the differences.
          FileNotFoundError: it has checkpoints and no tokenizer.
        """
        if begun := any(self.checkpoints.glob("*")):
            self._compare(config, MAY_CHANGE)
        write_atomically(self.config, json.dumps(plain(config), indent=2) + "\n")
        if begun:
            return Tokenizer.load(self.tokenizer)
        texts = [*corpus.train.source, *corpus.train.target]
        tokenizer = Tokenizer.train(texts, config.vocabulary)
        tokenizer.save(self.tokenizer)
        return tokenizer

    def trained(self, config: Config) -> tuple[System, State]:
        """The system that was trained here, and its best state.

        Raises:
          FileNotFoundError: nothing was.
          Mismatch: by another config; only what matters to training alone may differ.
          WorkdirBusy: it is being trained.
        """
        if not self.config.exists() or not any(self.checkpoints.glob("*")):
            raise FileNotFoundError(f"nothing has been trained in {self.path}; train first")
        self._compare(config, MAY_CHANGE | _ONLY_TRAINING)
        system = System(config, Tokenizer.load(self.tokenizer))
        with hold(self.path):
            return system, self.best(system)

    def best(self, system: System) -> State:
        """The state of the best evaluation, or the newest where there were none.

        With `decode.average`, its parameters are the mean of those of the best ones.

        Raises:
          Mismatch: it was trained with another tokenizer or model.
          Unreadable: it is broken.
        """

        def check(record: dict[str, Any]) -> None:
            trained_with = {"tokenizer": record["identity"]["tokenizer"]}
            here = {"tokenizer": system.tokenizer.fingerprint}
            compare(trained_with, here, what="tokenizer")

        if (count := system.config.decode.average) < 1:
            raise ValueError(f"expected decode.average of at least 1, got {count}")
        like = system.layout.place(system.initial_state())
        with Checkpoints(self.checkpoints) as checkpoints:
            if steps := checkpoints.best_steps(count):
                if len(steps) < count:
                    print(
                        f"averaging {len(steps)} checkpoints: decode.average asks for {count}, and"
                        f" train.keep={count} would have kept them",
                        file=sys.stderr,
                    )
                states = [checkpoints.restore(step, like, check=check)[0] for step in steps]
                return average(states[::-1]) if len(states) > 1 else states[0]
            found = checkpoints.newest(like, check=check)
        if found is None:
            raise FileNotFoundError(f"nothing has been trained in {self.path}; train first")
        return found[0]

    def training(self) -> dict[str, float]:
        """Seconds, target tokens and tokens per second of all logged steps, each counted once.

        And what was spent on compiling, by every process; and where the device's peak is known, the
        model's utilisation of it.
        """
        names = ("timing.jsonl", "metrics.jsonl")
        timing, metrics = (whole_lines(self.path / name) for name in names)
        pace = {x["step"]: rate for x in timing if (rate := x.get("tokens_per_second"))}
        trained = [x for x in metrics if x["split"] == "train" and "tokens" in x]
        timed = [(x["tokens"], pace[x["step"]]) for x in trained if x["step"] in pace]
        tokens = sum(tokens for tokens, _ in timed)
        seconds = sum(tokens / rate for tokens, rate in timed)
        rate = tokens / seconds if seconds else 0.0
        compiled = [0.0, *(x["compile_seconds"] for x in timing if "compile_seconds" in x)]
        # Each process counts its own from 0.
        spent = sum(now - before if now >= before else now for before, now in pairwise(compiled))
        found = {"seconds": seconds, "tokens": tokens, "tokens_per_second": rate}
        if spent:
            found["compile_seconds"] = spent
        if used := [x for x in timing if "model_flop_utilisation" in x]:
            per_rate = used[-1]["model_flop_utilisation"] / used[-1]["tokens_per_second"]
            found["model_flop_utilisation"] = per_rate * rate
        return found

    def _compare(self, config: Config, free: frozenset[str]) -> None:
        if not self.config.exists():
            return
        try:
            made_by = dict(json.loads(self.config.read_text("utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{self.config} is not what a run writes ({error}); move it away to go on"
            ) from error
        compare(_completed(made_by, _defaults(config)), plain(config), free=free)


def _defaults(config: Config) -> dict[str, Any]:
    return plain(Config(data=type(config.data)(), model=type(config.model)()))


def _completed(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Values with the defaults of fields that did not exist yet when they were written.

    >>> _completed({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}})
    {'a': {'b': 1, 'c': 3}}
    """
    nested = {
        name: _completed(value, defaults[name])
        for name, value in values.items()
        if isinstance(value, dict) and isinstance(defaults.get(name), dict)
    }
    return {**defaults, **values, **nested}


@contextlib.contextmanager
def left_once(path: Path) -> Iterator[Workdir]:
    """The directory itself where it is written for all hosts, else one that is thrown away."""
    if is_first():
        yield Workdir(path)
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Workdir(Path(scratch))


def plain(config: Config) -> dict[str, Any]:
    """A config as JSON can hold it, with the kind of corpus named.

    >>> plain(Config())["data"]["corpus"]
    'Phrases'
    """
    values = dataclasses.asdict(config)
    return {**values, "data": {"corpus": type(config.data).__name__, **values["data"]}}
