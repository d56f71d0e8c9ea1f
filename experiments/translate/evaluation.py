"""The second stage: translate the test split, score it, and draw where the decoder looked."""

import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from attn_jax.data.baseline import NearestNeighbour
from attn_jax.data.files import write_atomically
from attn_jax.data.lines import read_lines
from attn_jax.data.splits import Corpus, Pairs
from attn_jax.diagnostics import curves, plots
from attn_jax.diagnostics.report import write_report
from attn_jax.train import State, hold
from experiments.command_line import Command
from experiments.translate.attention import draw
from experiments.translate.page import look, translation_page
from experiments.translate.pairs import given_pairs
from experiments.translate.quality import by_length, chances, one_line, quality
from experiments.translate.report import Result, Sample, show, tables
from experiments.translate.system import System
from experiments.translate.translation import tell_of_cut
from experiments.translate.workdir import Workdir, left_once

SAMPLES, PICTURES = 5, 3


def evaluate(command: Command) -> None:
    """Reports on what was trained in the workdir: on its test split, or on `--input`.

    What it finds of the test split stays in the workdir, of other text in `--output`, by default
    a directory of the file's name in the workdir's `evaluated`. `--against` is another workdir, or
    a file of translations of the same text, to compare with by a paired bootstrap.
    """
    workdir, options = Workdir(command.workdir), command.options
    data, into = command.config.data, workdir.path
    if options["input"] or options["target"]:
        test, into = _given(command), workdir.path / "evaluated"
        into /= Path(options["input"] or "standard-input").name
        # Only what remembers the training set needs it.
        read = data.load().train if data.one_answer else test
        corpus = Corpus(read, Pairs([], []), test, *data.languages)
    else:
        corpus = data.load()
    others = _others(options["against"], corpus.test) if options["against"] else {}
    system, state = workdir.trained(command.config)
    with hold(workdir.path), left_once(Path(options["output"] or into)) as left:
        report(system, state, corpus, workdir, left=left, others=others)


def report(
    system: System,
    state: State,
    corpus: Corpus,
    workdir: Workdir,
    *,
    left: Workdir | None = None,
    others: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Translates and scores the test split; prints the result, and leaves it in a directory.

    Args:
      system, state: what translates.
      corpus: whose test split is translated.
      workdir: where it was trained.
      left: where the result is left; the workdir by default.
      others: translations of other systems, by name, to compare with.
    """
    if not len(corpus.test):
        print("the corpus has no test split, so there is nothing to report on", file=sys.stderr)
        return

    def clock() -> float:
        return time.perf_counter() - system.compile_seconds

    began = clock()
    translations = list(system.translate(state.averaged, corpus.test.source, system.search))
    seconds = clock() - began
    for number, translation in enumerate(translations, 1):
        tell_of_cut(number, translation)

    mine = [translation.text for translation in translations]
    references = [one_line(target) for target in corpus.test.target]
    systems: dict[str, Sequence[str]] = {system.name: mine}
    if system.config.data.one_answer:
        remembered = NearestNeighbour(corpus.train).translate(corpus.test.source)
        systems["nearest neighbour"] = remembered
    systems |= others or {}
    lengths, language = [len(t.source) for t in translations], corpus.target_language

    count = min(SAMPLES, len(translations))
    chosen = [i * len(translations) // count for i in range(count)]
    result = Result(
        scores={name: quality(x, references, language) for name, x in systems.items()},
        chances={
            name: chances(mine, x, references, language) for name, x in (others or {}).items()
        },
        by_length={
            name: by_length(lengths, x, references, language) for name, x in systems.items()
        },
        exact_counts=system.config.data.one_answer,
        step=int(state.step),
        parameters=system.parameters,
        training=workdir.training(),
        sentences_per_second=len(translations) / seconds,
        compile_seconds=system.compile_seconds,
        decoding=dataclasses.asdict(system.config.decode),
        samples=[Sample(corpus.test.source[i], references[i], mine[i]) for i in chosen],
    )
    left = left or workdir
    texts = (left.hypotheses, mine), (left.references, references)
    files = [write_atomically(path, "".join(f"{x}\n" for x in lines)) for path, lines in texts]
    content = json.dumps(dataclasses.asdict(result), indent=2, ensure_ascii=False)
    files.append(write_atomically(left.result, content + "\n"))
    curve = {name: np.array([x.bleu for x in found]) for name, found in result.by_length.items()}
    tokens = np.array([x.tokens for x in result.by_length[system.name]])
    figure = curves.fits([curves.Fit(tokens, curve)], x="length of the source, tokens", y="BLEU")
    files.append(plots.save(figure, left.lengths))
    if system.attends:
        for number, i in enumerate(chosen[:PICTURES], 1):
            path = left.pictures / f"cross-attention-{number}.png"
            files.append(draw(system, state, translations[i], path))
    pictured = [translations[i] for i in chosen[: system.config.train.pictured]]
    looked, examples = look(system, state, pictured)
    page = translation_page(system, looked, examples, workdir, tables(result))
    files.append(write_report(left.page, page))
    show(result, files)


def _given(command: Command) -> Pairs:
    pairs = list(given_pairs(command))
    if not pairs:
        raise ValueError("there is nothing to evaluate: no line was given")
    return Pairs([source for source, _ in pairs], [target or "" for _, target in pairs])


def _others(path: str, test: Pairs) -> dict[str, list[str]]:
    """The translations of a workdir, or those of a file, refused if they are of other text."""
    workdir = Workdir(Path(path)) if Path(path).is_dir() else None
    lines = list(read_lines(workdir.hypotheses if workdir else path))
    if len(lines) != len(test):
        raise ValueError(
            f"expected {len(test)} translations to compare with, {path} has {len(lines)}"
        )
    references = list(map(one_line, test.target))
    if workdir and list(read_lines(workdir.references)) != references:
        raise ValueError(f"{path} holds translations of other text than is evaluated")
    return {path: lines}
