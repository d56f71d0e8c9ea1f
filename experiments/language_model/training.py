"""The first stage: read, build, train; then judge, write samples, and draw."""

from collections.abc import Iterator
from typing import Any

import jax

from attn_jax.data.documents import Documents
from attn_jax.data.files import write_atomically
from attn_jax.decode import Sample
from attn_jax.train import State, hold
from attn_jax.train.metrics import whole_lines
from experiments.command_line import Command
from experiments.language_model.baselines import compressed_bits, ngram_bits
from experiments.language_model.system import System
from experiments.language_model.workdir import Workdir
from experiments.results import leave, show, show_paths
from experiments.text_runs import learned, losses

ORDERS = (1, 3, 5)  # of the n-grams that stand beside the model
WAYS = {
    "the most probable": None,
    "temperature 1": Sample(),
    "temperature 0.7": Sample(temperature=0.7),
    "top k 10": Sample(top_k=10),
    "top p 0.9": Sample(top_p=0.9),
}


def train(command: Command) -> None:
    """Trains to the end, from the newest checkpoint if there is one; then reports."""
    config, workdir = command.config, Workdir(command.workdir)
    documents, plan = config.data.load(), config.train.plan()
    with hold(workdir.path):
        tokenizer = workdir.tokenizer_or(lambda: config.data.tokenizer(documents))
        system = System(config, tokenizer)
        report(system, learned(system, documents, plan, workdir), documents, workdir)


def report(system: System, state: State, documents: Documents, workdir: Workdir) -> None:
    """Judges and samples; prints the result, and leaves it in the workdir."""
    found = system.judge(documents.heldout)(state.params)
    rows = [
        {"what knows the text": f"{order}-grams of characters", "bits per character": bits}
        for order in ORDERS
        for bits in [ngram_bits(documents.train, documents.heldout, order)]
    ]
    compressed = compressed_bits(documents.train, documents.heldout)
    rows.append({"what knows the text": "xz", "bits per character": compressed})
    name = f"GPT, {system.parameters:,} parameters, step {int(state.step):,}"
    rows.append({"what knows the text": name, "bits per character": found["bits_per_character"]})
    metrics = whole_lines(workdir.path / "metrics.jsonl")
    result = {
        "step": int(state.step),
        "parameters": system.parameters,
        "heldout": found,
        "bits per character": {
            row["what knows the text"]: row["bits per character"] for row in rows
        },
        "training": [line for line in metrics if line["split"] == "train"],
        "validation": [line for line in metrics if line["split"] == "validation"],
    }
    texts = dict(samples(system, state.params, documents.heldout[0]))
    for title, text in texts.items():
        print(f"── {title}\n{text}\n")
    unit = system.config.data.unit
    print(
        f"held-out text: perplexity {found['perplexity']:.2f} per {unit},"
        f" {100 * found['accuracy']:.1f} % of them foreseen"
    )
    show("Held-out text", rows)
    whole = "".join(f"── {title}\n{text}\n\n" for title, text in texts.items())
    paths = [write_atomically(workdir.samples, whole)]
    paths += leave(workdir.path, system.config, result, {"losses": losses(result)})
    show_paths(paths)


def samples(system: System, params: Any, text: str) -> Iterator[tuple[str, str]]:
    """How a held-out document's first line is gone on with, in several ways: titles and texts."""
    prompt = text.strip().split("\n")[0] + "\n\n"
    length = system.config.generate.length
    rng = jax.random.key(system.config.generate.seed)
    for name, options in WAYS.items():
        yield name, prompt + "".join(system.write(params, prompt, options, rng, length))
