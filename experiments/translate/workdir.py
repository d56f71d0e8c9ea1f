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
from attn_jax.train import Run, State, average
from attn_jax.train.distributed import is_first
from attn_jax.train.metrics import whole_lines
from experiments import workdir
from experiments.translate.config import Config, Published
from experiments.translate.published import PublishedTokenizer
from experiments.translate.system import System


class Workdir(workdir.Workdir[System]):
    """The files of a translation run."""

    system = System
    free = workdir.Workdir.free | {
        "decode",
        "data.directory",
        "data.cache",
        "mesh",
        "model.backend",
        "train.keep",
        "train.skip",
        "train.verdicts",
        "train.pictured",
    }
    of_training = frozenset({"batches", "optimizer", "train", "seed"})

    def __init__(self, path: Path):
        super().__init__(path)
        self.config = path / "config.json"
        self.hypotheses = path / "hypotheses.txt"
        self.references = path / "references.txt"
        self.result = path / "result.json"
        self.pictures = path / "attention"
        self.lengths = path / "bleu-by-length.png"
        self.page = path / "report.html"

    def tokenizer_of(self, config: Config) -> Tokenizer | PublishedTokenizer:
        """The tokenizer of a run of this config; a published model has its own."""
        published = isinstance(config.model, Published)
        return config.model.tokenizer() if published else super().tokenizer_of(config)

    def trained(self, config: Config) -> tuple[System, State]:
        """The system that was trained here, or a published one as it is, and its best state."""
        if isinstance(config.model, Published) and not Run(self.path).begun:
            system = System(config, self.tokenizer_of(config))
            return system, system.initial_state()
        return super().trained(config)

    def begin(self, config: Config, corpus: Corpus) -> Tokenizer | PublishedTokenizer:
        """Makes the workdir this config's, and its tokenizer; both are kept when it goes on.

        Before the first checkpoint nothing is there to go on from, and both are made anew.

        Raises:
          Mismatch: it was made by another config; the message lists the differences.
          FileNotFoundError: it has checkpoints and no tokenizer.
          ValueError: its config.json is none.
        """
        run = self.run(config)
        if run.begun and self.config.exists():
            run.check(self._made_by())
        write_atomically(self.config, json.dumps(self.plain(config), indent=2) + "\n")
        if isinstance(config.model, Published):
            return config.model.tokenizer()
        texts = [*corpus.train.source, *corpus.train.target]
        return self.tokenizer_or(lambda: Tokenizer.train(texts, config.vocabulary))

    def best(self, system: System) -> State:
        """The state of the best evaluation, or the newest where there were none.

        With `decode.average`, its parameters are the mean of those of the best ones.

        Raises:
          FileNotFoundError, Mismatch, Unreadable: as of :func:`attn_jax.train.best_states`.
        """
        count = system.config.decode.average
        like = system.layout.place(system.initial_state())
        states = self.best_states(system, like, count)
        if len(states) < count:
            print(
                f"averaging {len(states)} checkpoints, all that were kept: decode.average asks for"
                f" {count}; train.keep says how many a run keeps",
                file=sys.stderr,
            )
        return average(states[::-1]) if len(states) > 1 else states[0]

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

    def _made_by(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.config.read_text("utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{self.config} is not what a run writes ({error}); move it away to go on"
            ) from error

    @staticmethod
    def plain(config: Config) -> dict[str, Any]:
        """A config as JSON can hold it, with the kind of corpus named.

        >>> Workdir.plain(Config())["data"]["corpus"]
        'Phrases'
        """
        values = dataclasses.asdict(config)
        return {**values, "data": {"corpus": type(config.data).__name__, **values["data"]}}


@contextlib.contextmanager
def left_once(path: Path) -> Iterator[Workdir]:
    """The directory itself where it is written for all hosts, else one that is thrown away."""
    if is_first():
        yield Workdir(path)
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Workdir(Path(scratch))
