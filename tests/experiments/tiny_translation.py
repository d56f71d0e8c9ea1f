"""A translation run of a few sentences and a few parameters, through its command line."""

import contextlib
import dataclasses
import io
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.train import Checkpoints, Retention
from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT, main
from experiments.translate.system import System
from experiments.translate.workdir import Workdir

WORDS = {"one": "un", "two": "dos", "red": "rot", "tan": "ros", "cat": "gat", "dog": "can"}
SENTENCES = [
    (f"{n} {a} {c}", f"{WORDS[n]} {WORDS[c]} {WORDS[a]}")
    for n in ("one", "two")
    for a in ("red", "tan")
    for c in ("cat", "dog")
]
CONFIGS = Path(__file__).parents[2] / "configs/translate"
SMALL = [
    "--config.vocabulary=300",
    "--config.model.width=8",
    "--config.model.hidden=8",
    "--config.model.heads=2",
    "--config.model.encoder_layers=1",
    "--config.model.decoder_layers=1",
    "--config.batches.buckets=1",
    "--config.batches.longest=8",
    "--config.batches.tokens=64",
    "--config.decode.longest=8",
    "--config.decode.tokens=64",
    "--config.train.steps=4",
    "--config.train.evaluate_every=2",
    "--config.train.log_every=2",
    "--config.train.pictured=0",
]


class Said(NamedTuple):
    code: int
    out: str
    err: str


def write_corpus(path: Path) -> Path:
    """Eight pairs to train on, five of them to test on."""
    for side, name in enumerate(("en", "fr")):
        for split, part in (("train", SENTENCES), ("test", SENTENCES[:5])):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (path / f"{split}.{name}").write_text(text, encoding="utf-8")
    return path


def files(corpus: Path) -> list[str]:
    """What `write_corpus` has written, as options."""
    return [
        f"--config.data.{split}.{side}={corpus}/{file}.{name}"
        for split, file in (("train", "train"), ("validation", "test"), ("test", "test"))
        for side, name in (("source", "en"), ("target", "fr"))
    ]


def arguments(corpus: Path, workdir: Path, *more: str) -> list[str]:
    config = CONFIGS / "files.py"
    return [f"--config={config}", *files(corpus), *SMALL, f"--workdir={workdir}", *more]


def run(corpus: Path, workdir: Path, *more: str) -> Said:
    return say(arguments(corpus, workdir, *more))


def say(arguments: list[str]) -> Said:
    """The command line, in this process."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = main(arguments)
    return Said(code, out.getvalue(), err.getvalue())


def refused(said: Said, *parts: str) -> None:
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    for part in parts:
        assert part in said.err


def leave_drawn(corpus: Path, workdir: Path, *more: str) -> None:
    """A workdir as a run leaves it whose matrices are drawn, far from the initial ones."""

    def draw(x: jax.Array) -> jax.Array:
        return jnp.asarray(rng.normal(size=x.shape), x.dtype) if x.ndim > 1 else x

    config = parse(EXPERIMENT, arguments(corpus, workdir, *more)).config
    tokenizer = Workdir(workdir).begin(config, config.data.load())
    state, rng = System(config, tokenizer).initial_state(), np.random.default_rng(0)
    params = jax.tree.map(draw, state.params)
    state = dataclasses.replace(state, params=params)
    with Checkpoints(workdir / "checkpoints", Retention()) as checkpoints:
        identity = {"tokenizer": tokenizer.fingerprint}
        checkpoints.save(state, {"identity": identity, "config": Workdir.plain(config)})
