"""The first stage: read, build, train; then judge, fill in, and draw."""

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attn_jax.data.documents import Documents
from attn_jax.diagnostics.curves import Fit, fits
from attn_jax.train import State, hold
from attn_jax.train.metrics import whole_lines
from experiments.command_line import Command
from experiments.masked_language_model.baselines import Counts
from experiments.masked_language_model.filling import show_filled
from experiments.masked_language_model.system import System
from experiments.masked_language_model.workdir import Workdir
from experiments.results import Row, leave, show, show_paths
from experiments.text_runs import learned, losses

FREQUENCIES = (0, 30, 100, 300, 1_000, 3_000)  # where ranges of counts begin
Said = dict[str, tuple[NDArray[np.bool_], NDArray[np.float64]]]
"""Of each hidden token, whether it is what is held most probable, and the logarithm of its
probability; by what knows the text."""


def train(command: Command) -> None:
    """Trains to the end, from the newest checkpoint if there is one; then reports."""
    config, workdir = command.config, Workdir(command.workdir)
    config.check()
    documents, plan = flowing(config.data.load()), config.train.plan()
    with hold(workdir.path):
        tokenizer = workdir.tokenizer_or(lambda: config.data.tokenizer(documents))
        system = System(config, tokenizer)
        report(system, learned(system, documents, plan, workdir), documents, workdir)


def flowing(documents: Documents) -> Documents:
    """The text without line ends and indentation: one space between words, so that words are hidden."""
    parts = (
        tuple(" ".join(text.split()) for text in part)
        for part in (documents.train, documents.heldout)
    )
    return Documents(*parts)


def report(system: System, state: State, documents: Documents, workdir: Workdir) -> None:
    """Judges and fills in; prints the result, and leaves it in the workdir."""
    found = system.judge(documents.heldout)(state.params)
    heldout = system.tokens(documents.heldout)
    places = system.places(heldout)
    counts = Counts(system.tokens(documents.train), len(system.tokenizer))
    said = counted(counts, heldout, places)
    said["BERT"] = judged(system.one_by_one(state.params, heldout, places), heldout[places])
    rows: list[Row] = [
        {
            "what knows the text": known,
            "accuracy": float(right.mean()),
            "pseudo-perplexity": math.exp(-logarithms.mean()),
        }
        for known, (right, logarithms) in said.items()
    ]
    metrics = whole_lines(workdir.path / "metrics.jsonl")
    result: dict[str, Any] = {
        "step": int(state.step),
        "parameters": system.parameters,
        "heldout": found,
        "one by one": rows,
        "by frequency": by_frequency(said, counts.count[heldout[places]]),
        "training": [line for line in metrics if line["split"] == "train"],
        "validation": [line for line in metrics if line["split"] == "validation"],
    }
    show(f"{len(places):,} tokens of the held-out text, each hidden alone", rows)
    show("Their accuracy by how often a token is in what was trained on", result["by frequency"])
    part = 100 * system.config.masking.rate
    print(
        f"BERT, {system.parameters:,} parameters, step {int(state.step):,}:"
        f" {part:g} % of the held-out text hidden at once: {100 * found['accuracy']:.1f} % of it"
        f" said right, {found['loss']:.3f} nats each"
    )
    result["filled"] = show_filled(system, state.params, system.config.fill.sentences)
    pictures = {"losses": losses(result), "frequencies": frequencies(result["by frequency"])}
    show_paths(leave(workdir.path, system.config, result, pictures))


def judged(logarithms: NDArray[Any], truth: NDArray[np.int32]) -> Any:
    """Of each row of `n v`, whether its largest is the truth's, and the truth's own."""
    return logarithms.argmax(-1) == truth, logarithms[np.arange(len(truth)), truth]


def counted(counts: Counts, tokens: NDArray[np.int32], places: NDArray[np.int64]) -> Said:
    """What counting says of tokens at some places, by what it knows."""
    said: Said = {}
    for name, probabilities in counts.ways().items():
        one_by_one = (
            judged(np.log(probabilities(tokens[i - 1], tokens[i + 1]))[None], tokens[i : i + 1])
            for i in places
        )
        right, logarithms = zip(*one_by_one)
        said[name] = np.concatenate(right), np.concatenate(logarithms)
    return said


def by_frequency(said: Said, counts: NDArray[np.int64]) -> list[Row]:
    """Accuracies of the tokens that were counted so often, a row for each range that has any."""
    rows: list[Row] = []
    which = np.searchsorted(FREQUENCIES, counts, "right") - 1
    for number, first in enumerate(FREQUENCIES):
        here = which == number
        if here.any():
            accuracies = {name: float(right[here].mean()) for name, (right, _) in said.items()}
            rows.append({"times, from": first, "tokens": int(here.sum()), **accuracies})
    return rows


def frequencies(rows: list[Row]) -> Figure:
    """The accuracy by how often a token was there to learn from."""
    x = np.log10([max(row["times, from"], 1) for row in rows])
    names = [name for name in rows[0] if name not in ("times, from", "tokens")]
    lines = {name: np.array([row[name] for row in rows]) for name in names}
    title = "Hidden tokens by how often they were there to learn from"
    return fits([Fit(x, lines)], title, x="log10 of the least count", y="accuracy")
