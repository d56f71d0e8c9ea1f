"""Sentences a second of beam search beside MarianMT of `transformers`, of the same size and weights.

    python -m benchmarks.decoding --config.data.directory=DIR
    python -m benchmarks.decoding --config=FILE --workdir=RUN --config.data.directory=DIR

Translates the test split of Multi30k, text to text, with a beam of 4. The second command takes what
experiments.translate has trained in RUN, whose config MarianMT must be able to say:
`--config.model.norm=post --config.model.epsilon=1e-5`; both sides rank by probability alone, which they
define alike, and it is told how many translations are the same. The first draws a model of that config,
none of whose translations ends before it has as many tokens as the references have on average.
transformers takes batches of 50 lines, in the order of the file, as its pipelines do, and once more
sorted by length, as attn_jax sorts them inside. All take turns; reported are medians, and the median of
the paired ratios with a bootstrap interval of 95 %.

Then `python -m experiments.translate --mode=translate` is begun anew, its compiled programs on disk, and
the time to the first line it answers is taken. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers
from flax import nnx

from attn_jax import interop
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.decode.search import Beam
from attn_jax.decode.stream import Shapes, stream
from attn_jax.decode.translate import TargetLength, translate
from attn_jax.train import Checkpoints, Retention
from benchmarks import timing
from experiments.command_line import parse
from experiments.translate.__main__ import EXPERIMENT
from experiments.translate.config import Config
from experiments.translate.system import System
from experiments.translate.workdir import Workdir

DRAWN = [
    "--config=configs/translate/multi30k.py:en-fr",
    "--config.model.norm=post",
    "--config.model.epsilon=1e-5",
]
BEAM, BATCH = 4, 50
NEVER = -1e3  # added to the logit of the end


class Program(NamedTuple):
    """Something to time: `run` returns the translations."""

    peer: str
    run: Callable[[], list[str]]


class Task(NamedTuple):
    """What is translated, and by what.

    Args:
      model: a Transformer that MarianMT can be.
      tokenizer: its.
      lines: text.
      length: how long translations may become.
      shapes: of our batches.
      ends: whether translations end where the model says; else all are as long as they may become.
    """

    model: Any
    tokenizer: Tokenizer
    lines: Sequence[str]
    length: TargetLength
    shapes: Shapes
    ends: bool


def drawn(config: Config, workdir: Path) -> None:
    """Leaves a workdir as a run does whose parameters are still the initial ones."""
    tokenizer = Workdir(workdir).begin(config, config.data.load())
    state = System(config, tokenizer).initial_state()
    with Checkpoints(workdir / "checkpoints", Retention()) as checkpoints:
        identity = {"tokenizer": tokenizer.fingerprint}
        checkpoints.save(state, {"identity": identity, "config": Workdir.plain(config)})


def task(config: Config, workdir: Path, count: int | None, *, ends: bool) -> Task:
    """The first `count` lines of the test split, or all, and the model of a workdir."""
    system, state = Workdir(workdir).trained(config)
    model, tokenizer, test = system.model(state.averaged), system.tokenizer, config.data.load().test
    lines, length = test.source[:count], config.decode.length
    if not ends:
        tokens = round(np.mean([len(tokenizer.encode(text)) + 1 for text in test.target]))
        length = TargetLength(0.0, tokens, tokens)
        model.config = dataclasses.replace(model.config, output_bias=True)
        model.output_bias = nnx.Param(jnp.zeros(len(tokenizer)).at[model.config.end].set(NEVER))
    return Task(model, tokenizer, lines, length, config.decode.shapes(1), ends)


def ours(given: Task) -> Program:
    """Through the stream of batches that experiments.translate uses."""
    # What ends at its limit pays for its end there: only its length makes up for that.
    beam = Beam(BEAM, length_penalty=0.0 if given.ends else 1.0)
    graph, state = nnx.split(given.model)
    search = jax.jit(
        lambda state, x: translate(nnx.merge(graph, state), x, beam, length=given.length)
    )

    def run() -> list[str]:
        sources = map(given.tokenizer.encode, given.lines)
        found = stream(sources, lambda x: search(state, x), shapes=given.shapes)
        return [given.tokenizer.decode(one.tokens[0]) for one in found]

    return Program("attn_jax", run)


def theirs(given: Task) -> list[Program]:
    """Through `generate`, in batches of lines in the order of the file, and in order of length."""
    with tempfile.TemporaryDirectory() as directory:
        interop.save(given.model, directory)
        model = transformers.MarianMTModel.from_pretrained(directory).eval()
    tokenizer = given.tokenizer

    def run(ordered: bool) -> list[str]:
        sources = [[*tokenizer.encode(line), tokenizer.eos] for line in given.lines]
        found = [""] * len(sources)
        order = list(range(len(sources)))
        if ordered:
            order.sort(key=lambda i: len(sources[i]))
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            ids = np.full((len(some), max(len(sources[i]) for i in some)), tokenizer.pad)
            for row, i in enumerate(some):
                ids[row, : len(sources[i])] = sources[i]
            tokens = model.generate(
                torch.tensor(ids),
                attention_mask=torch.tensor(ids != tokenizer.pad).long(),
                num_beams=BEAM,
                length_penalty=0.0,
                do_sample=False,
                max_new_tokens=given.length.of(ids.shape[1]),
            )
            for i, row in zip(some, tokens[:, 1:].tolist()):
                found[i] = tokenizer.decode(row)
        return found

    return [
        Program("transformers", functools.partial(run, False)),
        Program("transformers, lines sorted by length", functools.partial(run, True)),
    ]


def first_translations(arguments: Sequence[str], line: str, repeats: int) -> list[float]:
    """Seconds from the start of experiments.translate to its first answer, once it has been compiled."""
    command = [sys.executable, "-m", "experiments.translate", *arguments, "--mode=translate"]
    seconds = []
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache}
        for _ in range(repeats + 1):
            start = time.perf_counter()
            with subprocess.Popen(
                command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as child:
                assert child.stdin is not None
                assert child.stdout is not None
                child.stdin.write(f"{line}\n")
                child.stdin.close()
                child.stdout.readline()
                seconds.append(time.perf_counter() - start)
            if child.returncode:
                raise SystemExit(child.returncode)
    return seconds[1:]


def compare(given: Task, repeats: int, budget: float) -> list[dict[str, Any]]:
    """One record a side; where translations end by themselves, with how many are the same."""
    programs = [ours(given), *theirs(given)]
    said = [program.run() for program in programs]
    taken = timing.measure(programs, repeats, budget=budget)
    mine = taken[programs[0]]
    parameters = sum(x.size for x in jax.tree.leaves(nnx.state(given.model, nnx.Param)))
    return [
        {
            "program": program.peer,
            "parameters": parameters,
            "sentences": len(given.lines),
            "sentences_per_second": float(len(given.lines) / np.median(taken[program])),
            "slower": float(np.median(taken[program] / mine)),
            "interval": timing.interval(taken[program] / mine),
            "turns": len(mine),
            "same": float(np.mean([a == b for a, b in zip(said[0], said[i])])),
            "ends": given.ends,
        }
        for i, program in enumerate(programs)
    ]


def table(records: list[dict[str, Any]], about: dict[str, str]) -> str:
    """The records as markdown."""
    mine, *others = [r for r in records if "slower" in r]
    begun = [r for r in records if "seconds" in r]
    header = ["", "sentences/s", "time ÷ attn_jax's (95 %)"]
    lines = [[mine["program"], f"{mine['sentences_per_second']:.0f}", ""]]
    for r in others:
        low, high = r["interval"]
        times = f"{r['slower']:.2f} ({low:.2f}–{high:.2f})"
        lines.append([r["program"], f"{r['sentences_per_second']:.0f}", times])
    said = (
        f"Beam {BEAM}, {mine['sentences']} sentences, {mine['parameters'] / 1e6:.1f} million "
        f"parameters, the same on both sides; {mine['turns']} turns; {timing.said(about)}\n\n"
        f"{timing.markdown(header, lines)}"
    )
    if mine["ends"]:
        same = ", ".join(f"{r['same']:.1%}" for r in others)
        said += f"\nOf the translations, {same} are the same to the letter.\n"
    for record in begun:
        seconds = record["seconds"]
        said += (
            f"\nThe first translation comes {np.median(seconds):.1f} s after the start of "
            f"{record['program']}, its programs compiled by an earlier run "
            f"({', '.join(f'{x:.1f}' for x in seconds)} s).\n"
        )
    return said


def main() -> None:
    """Measures, and writes the table and the records."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else None,
        epilog="What else is given is given to experiments.translate.",
        allow_abbrev=False,
    )
    parser.add_argument("--repeats", type=int, default=5, help="turns counted, at most")
    parser.add_argument("--seconds", type=float, default=150, help="of turns")
    parser.add_argument("--sentences", type=int, help="how many of the test split; all by default")
    parser.add_argument("--workdir", help="of a run; without, a model is drawn")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/decoding"))
    options, others = parser.parse_known_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as made:
        arguments = [*([] if options.workdir else DRAWN), *others]
        arguments += [f"--workdir={options.workdir or made}"]
        config, workdir = (command := parse(EXPERIMENT, arguments)).config, command.workdir
        if not options.workdir:
            drawn(config, workdir)
        given = task(config, workdir, options.sentences, ends=bool(options.workdir))
        about = timing.machine("flax", "torch", "transformers")
        records = compare(given, options.repeats, options.seconds)
        timing.write(options.out, about, records, table(records, about))
        first = first_translations(arguments, given.lines[0], min(3, options.repeats))
    records.append({"program": "experiments.translate", "seconds": first})
    timing.write(options.out, about, records, table(records, about))


if __name__ == "__main__":
    main()
