"""Time of whole models beside `transformers` on torch, with the same weights, in one process.

    python -m benchmarks.models --out benchmarks/results/models

For each model a random one is made by torch, written, and loaded here. All programs of it are compiled
first, then take turns, without dropout, in float32. Backward is the gradient of the mean cross-entropy
of random labels by every parameter. Reported are medians, and the median of the paired ratios, time of
the twin to ours, with a bootstrap interval of 95 %; above 1 we are faster. Writes OUT.json and OUT.md
after each model. `--small` times models of a few parameters, to see that all works.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
import transformers
from flax import nnx

from attn_jax import interop
from benchmarks import timing

WORDS, IMAGE = 31, 32  # of the small models


class Case(NamedTuple):
    """A model and what it is given.

    Args:
      twin: the class of `transformers`, which is made with the defaults of its config.
      shape: of the input: `b t` tokens or `b y x c` images.
      options: of the config, where its defaults are not the published sizes.
      small: of the config of a small one.
    """

    twin: str
    shape: tuple[int, ...]
    options: dict[str, Any]
    small: dict[str, Any]


BERT_SIZES = dict(
    vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=24,
)  # fmt: skip
CASES = {
    "BERT-base": Case("BertForMaskedLM", (2, 128), {}, BERT_SIZES),
    "GPT-2": Case(
        "GPT2LMHeadModel", (1, 256), {}, dict(vocab_size=WORDS, n_embd=16, n_layer=1, n_head=2)
    ),
    "ViT-B/16": Case(
        "ViTForImageClassification", (2, 224, 224, 3), dict(num_labels=1000),
        dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=IMAGE),
    ),
    "Swin-T": Case(
        "SwinForImageClassification", (2, 224, 224, 3), dict(num_labels=1000),
        dict(embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, image_size=IMAGE),
    ),
    "Longformer-base": Case(
        "LongformerForSequenceClassification", (1, 4096),
        dict(vocab_size=50_265, max_position_embeddings=4098, type_vocab_size=1, pad_token_id=1,
             layer_norm_eps=1e-5),
        dict(BERT_SIZES, attention_window=8),
    ),
    "BigBird-base": Case(
        "BigBirdForSequenceClassification", (1, 4096), {},
        dict(BERT_SIZES, block_size=1, num_random_blocks=1),
    ),
}  # fmt: skip


class Program(NamedTuple):
    """Something to time: `run` waits for its result."""

    direction: str
    peer: str
    run: Callable[[], Any]
    compile_s: float = 0.0


class Inputs(NamedTuple):
    """What a model is given: `b t` tokens or `b y x c` images, labels, and which tokens are global."""

    x: np.ndarray
    labels: np.ndarray
    is_global: np.ndarray | None


def make(case: Case, *, small: bool) -> tuple[Any, Inputs]:
    """A random twin, and something to give it; the first token of a Longformer is global."""
    options = case.options | case.small if small else case.options
    kind = getattr(transformers, case.twin)
    torch.manual_seed(0)
    twin = kind(kind.config_class(**options)).eval()
    rng = np.random.default_rng(0)
    if len(case.shape) == 4:
        shape = (1, IMAGE, IMAGE, 3) if small else case.shape
        images = rng.normal(size=shape).astype(np.float32)
        return twin, Inputs(images, rng.integers(0, twin.config.num_labels, shape[:1]), None)
    shape = (1, 16) if small else case.shape
    ids, labels = rng.integers(3, twin.config.vocab_size, (2, *shape))
    if "Classification" in case.twin:
        labels = rng.integers(0, twin.config.num_labels, shape[:1])
    first = np.arange(shape[1]) == np.zeros((shape[0], 1))
    return twin, Inputs(ids, labels, first if "Longformer" in case.twin else None)


def ours(twin: Any, inputs: Inputs) -> list[Program]:
    """Our programs, compiled, of the twin's weights."""
    with tempfile.TemporaryDirectory() as directory:
        twin.save_pretrained(directory)
        graph, parameters, rest = nnx.split(interop.load(directory), nnx.Param, ...)
    x, labels, is_global = jax.tree.map(jnp.asarray, inputs)

    def forward(parameters: Any, x: jax.Array) -> jax.Array:
        options = {} if is_global is None else {"is_global": is_global}
        return nnx.merge(graph, parameters, rest)(x, **options)

    def loss(parameters: Any, x: jax.Array) -> jax.Array:
        logits = forward(parameters, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    programs = []
    for direction, f in (("forward", forward), ("forward+backward", jax.value_and_grad(loss))):
        start = time.perf_counter()
        compiled = jax.jit(f).lower(parameters, x).compile()
        taken = time.perf_counter() - start
        run = partial(lambda f, *given: jax.block_until_ready(f(*given)), compiled, parameters, x)
        programs.append(Program(direction, "attn_jax", run, taken))
    return programs


def theirs(twin: Any, inputs: Inputs) -> list[Program]:
    """The twin's programs."""
    labels = torch.tensor(inputs.labels).reshape(-1)
    if inputs.x.ndim == 4:
        given = {"pixel_values": torch.tensor(np.moveaxis(inputs.x, -1, 1)).contiguous()}
    else:
        given = {"input_ids": torch.tensor(inputs.x)}
        given["attention_mask"] = torch.ones_like(given["input_ids"])
    if inputs.is_global is not None:
        given["global_attention_mask"] = torch.tensor(inputs.is_global).long()

    def logits() -> Any:
        return twin(**given).logits

    def backward() -> Any:
        twin.zero_grad(set_to_none=True)
        said = logits()
        loss = torch.nn.functional.cross_entropy(said.reshape(-1, said.shape[-1]), labels)
        loss.backward()
        return loss

    return [
        Program("forward", "transformers", torch.no_grad()(logits)),
        Program("forward+backward", "transformers", backward),
    ]


def difference(programs: list[Program]) -> float:
    """The largest difference between what two programs give, relative to the largest number."""
    mine, other = (np.asarray(program.run()) for program in programs)
    return float(np.abs(mine - other).max() / np.abs(other).max())


def compare(name: str, *, small: bool, repeats: int, budget: float) -> list[dict[str, Any]]:
    """One record a direction."""
    twin, inputs = make(CASES[name], small=small)
    programs = [*ours(twin, inputs), *theirs(twin, inputs)]
    agreement = difference([p for p in programs if p.direction == "forward"])
    seconds = timing.measure(programs, repeats, budget=budget)
    found = {p[:2]: taken for p, taken in seconds.items()}
    records = []
    for mine in programs[:2]:
        taken, other = (found[mine.direction, peer] for peer in ("attn_jax", "transformers"))
        records.append(
            {
                "model": name,
                "input": list(inputs.x.shape),
                "direction": mine.direction,
                "attn_jax_s": float(np.median(taken)),
                "transformers_s": float(np.median(other)),
                "speedup": float(np.median(other / taken)),
                "interval": timing.interval(other / taken),
                "turns": len(taken),
                "compile_s": mine.compile_s,
                "difference": agreement,
                "twin": f"{type(twin).__name__}, {twin.config._attn_implementation}",
            }
        )
    return records


def table(records: list[dict[str, Any]], about: dict[str, str]) -> str:
    """The records as markdown."""
    columns = ["model", "input", "direction", "attn_jax, ms", "transformers, ms"]
    columns += [
        "transformers ÷ attn_jax (95 %)",
        "turns",
        "compilation, s",
        "logits differ by",
        "twin",
    ]
    lines = []
    for r in records:
        low, high = r["interval"]
        lines.append(
            [
                r["model"],
                " × ".join(map(str, r["input"])),
                r["direction"],
                f"{1e3 * r['attn_jax_s']:.0f}",
                f"{1e3 * r['transformers_s']:.0f}",
                f"{r['speedup']:.2f} ({low:.2f}–{high:.2f})",
                str(r["turns"]),
                f"{r['compile_s']:.1f}",
                f"{r['difference']:.0e}",
                r["twin"],
            ]
        )
    return f"float32, no dropout; {timing.said(about)}\n\n{timing.markdown(columns, lines)}"


def main() -> None:
    """Measures, and writes the table and the records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", default=",".join(CASES), help="comma-separated")
    parser.add_argument("--small", action="store_true", help="of a few parameters")
    parser.add_argument("--repeats", type=int, default=7, help="turns counted, at most")
    parser.add_argument("--seconds", type=float, default=20, help="of turns for each model")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/models"))
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := set(names) - set(CASES):
        parser.error(f"no model {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    records: list[dict[str, Any]] = []
    for name in names:
        records += compare(
            name, small=options.small, repeats=options.repeats, budget=options.seconds
        )
        about = timing.machine("flax", "torch", "transformers")
        timing.write(options.out, about, records, table(records, about))


if __name__ == "__main__":
    main()
