"""The second stage: translate the test split, score it, and draw where the decoder looked."""

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from attn_jax.data.baseline import NearestNeighbour
from attn_jax.data.files import write_atomically
from attn_jax.data.splits import Corpus
from attn_jax.diagnostics import plots
from attn_jax.train import State, hold
from experiments.command_line import Command
from experiments.translate.quality import one_line, quality
from experiments.translate.report import Result, Sample, show
from experiments.translate.system import System, Translation
from experiments.translate.workdir import Workdir

SAMPLES, PICTURES = 5, 3


def evaluate(command: Command) -> None:
    """Reports on what was trained in the workdir."""
    workdir = Workdir(command.workdir)
    corpus = command.config.data.load()
    system, state = workdir.trained(command.config)
    with hold(workdir.path):
        report(system, state, corpus, workdir)


def report(system: System, state: State, corpus: Corpus, workdir: Workdir) -> None:
    """Translates and scores the test split; prints the result, and leaves it in the workdir."""
    if not len(corpus.test):
        print("the corpus has no test split, so there is nothing to report on", file=sys.stderr)
        return

    def clock() -> float:
        return time.perf_counter() - system.compile_seconds

    began = clock()
    translations = list(system.translate(state.averaged, corpus.test.source, system.beam))
    seconds = clock() - began
    for number, translation in enumerate(translations, 1):
        tell_of_cut(number, translation)

    hypotheses = [translation.text for translation in translations]
    references = [one_line(target) for target in corpus.test.target]
    scores = {"Transformer": quality(hypotheses, references, corpus.target_language)}
    if system.config.data.one_answer:
        remembered = NearestNeighbour(corpus.train).translate(corpus.test.source)
        scores["nearest neighbour"] = quality(remembered, references, corpus.target_language)

    count = min(SAMPLES, len(translations))
    chosen = [i * len(translations) // count for i in range(count)]
    result = Result(
        scores=scores,
        exact_counts=system.config.data.one_answer,
        step=int(state.step),
        parameters=system.parameters,
        training=workdir.training(),
        sentences_per_second=len(translations) / seconds,
        compile_seconds=system.compile_seconds,
        decoding=dataclasses.asdict(system.config.decode),
        samples=[Sample(corpus.test.source[i], references[i], hypotheses[i]) for i in chosen],
    )
    texts = (workdir.hypotheses, hypotheses), (workdir.references, references)
    files = [write_atomically(path, "".join(f"{x}\n" for x in lines)) for path, lines in texts]
    content = json.dumps(dataclasses.asdict(result), indent=2, ensure_ascii=False)
    files.append(write_atomically(workdir.result, content + "\n"))
    files += draw(system, state, [translations[i] for i in chosen[:PICTURES]], workdir)
    show(result, files)


def draw(
    system: System, state: State, translations: Sequence[Translation], workdir: Workdir
) -> list[Path]:
    """Draws every head of the last decoder layer's attention to the source, for each translation."""
    paths = []
    pieces, eos = system.tokenizer.pieces, system.tokenizer.eos
    weights = system.cross_attention(state.averaged, translations)
    for number, (translation, heads) in enumerate(zip(translations, weights), 1):
        figure = plots.heat_maps(
            heads,
            queries=pieces([*translation.tokens, eos]),
            keys=pieces([*translation.source, eos]),
            title=translation.text,
        )
        paths.append(plots.save(figure, workdir.pictures / f"cross-attention-{number}.png"))
    return paths


def tell_of_cut(number: int, translation: Translation) -> None:
    """Says so if a line was longer than what the model reads."""
    if translation.cut:
        read, cut = len(translation.source), translation.cut
        print(
            f"line {number} has {read + cut} tokens; only the first {read} were translated",
            file=sys.stderr,
        )
