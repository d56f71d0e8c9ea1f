"""The Multi30k model's training step beside Hugging Face's MarianMT, on the same batches.

    python -m benchmarks.training --directory DIR --batches 60 --out benchmarks/results/training

Both models have the sizes of configs/translate/multi30k.py, float32, dropout 0.1, label smoothing,
clipping and Adam; MarianMT normalises after each sublayer and ours before, which costs the same. A
batch is given to one and then to the other, in turns, and each is waited for. Every shape is seen once
by both before the clock runs. Reported are target tokens per second, and the ratio of the times of all
batches with a bootstrap interval of 95 % over batches. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from attn_jax.data.tokenizer import Tokenizer
from attn_jax.train import make_step
from benchmarks.timing import machine, markdown, said, write
from configs.translate.multi30k import get_config
from experiments.translate.config import Config
from experiments.translate.system import System
from experiments.translate.training import batches_of

Step = Callable[[Mapping[str, np.ndarray]], float]
"""A batch to the loss per token, when the step is done."""


class Peer(NamedTuple):
    """Something that trains."""

    name: str
    step: Step
    parameters: int


def ours(system: System) -> Peer:
    """The step that `experiments.translate` takes."""
    step = make_step(system.loss, system.optimizer, system.layout)
    state = step.place(system.initial_state())

    def run(batch: Mapping[str, np.ndarray]) -> float:
        nonlocal state
        state, metrics = step(state, batch)
        sums = jax.block_until_ready((state, metrics))[1]["sums"]
        return float(sums["loss"] / sums["count"])

    return Peer("attn_jax", run, system.parameters)


def marian(config: Config, vocabulary: int) -> Peer:
    """MarianMT as `transformers` has it, in torch, trained as its examples train."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    model, training = config.model, config.optimizer
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            d_model=model.width,
            encoder_layers=model.encoder_layers,
            decoder_layers=model.decoder_layers,
            encoder_attention_heads=model.heads,
            decoder_attention_heads=model.heads,
            encoder_ffn_dim=model.hidden,
            decoder_ffn_dim=model.hidden,
            dropout=model.dropout,
            attention_dropout=model.attention_dropout,
            activation_dropout=model.activation_dropout,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=config.batches.longest + 1,
            pad_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=1,
            use_cache=False,
        )
    ).train()
    parameters = [p for p in theirs.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(
        parameters,
        lr=training.learning_rate,
        betas=(training.b1, training.b2),
        eps=training.epsilon,
    )
    loss_of = torch.nn.CrossEntropyLoss(
        ignore_index=0, label_smoothing=config.train.smoothing, reduction="mean"
    )

    def run(batch: Mapping[str, np.ndarray]) -> float:
        source, inputs, labels = (
            torch.from_numpy(batch[name]).long() for name in ("source", "inputs", "labels")
        )
        logits = theirs(
            input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=inputs
        ).logits
        loss = loss_of(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, training.clip)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return Peer("MarianMT, torch", run, sum(p.numel() for p in parameters))


def measure(peers: list[Peer], batches: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Seconds of every batch, by peer; whoever began the last batch comes second in the next."""
    seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    seen: set[Any] = set()
    for batch in batches:
        if batch["labels"].shape + batch["source"].shape not in seen:
            seen.add(batch["labels"].shape + batch["source"].shape)
            for peer in peers:
                peer.step(batch)
        for peer in peers:
            start = time.perf_counter()
            peer.step(batch)
            seconds[peer.name].append(time.perf_counter() - start)
        peers = peers[::-1]
    return {name: np.array(times) for name, times in seconds.items()}


def interval(one: np.ndarray, other: np.ndarray, draws: int = 2000) -> tuple[float, float]:
    """A 95 % bootstrap interval of the ratio of two sums over the same batches."""
    chosen = np.random.default_rng(0).integers(len(one), size=(draws, len(one)))
    ratios = one[chosen].sum(1) / other[chosen].sum(1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def report(
    peers: list[Peer], batches: list[dict[str, np.ndarray]], seconds: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """One record a peer, with its speed relative to the last one's."""
    tokens = sum(np.count_nonzero(batch["labels"]) for batch in batches)
    basis = seconds[peers[-1].name]
    return [
        {
            "program": peer.name,
            "parameters": peer.parameters,
            "tokens_per_second": tokens / seconds[peer.name].sum(),
            "median_s": float(np.median(seconds[peer.name])),
            "speed_ratio": float(basis.sum() / seconds[peer.name].sum()),
            "interval": interval(basis, seconds[peer.name]),
        }
        for peer in peers
    ]


def table(records: list[dict[str, Any]], batches: int, about: dict[str, str]) -> str:
    """The records as markdown."""
    columns = ["program", "parameters", "target tokens/s", "median step, ms", "speed ratio (95 %)"]
    lines = [
        [
            r["program"],
            f"{r['parameters']:,}",
            f"{r['tokens_per_second']:,.0f}",
            f"{1e3 * r['median_s']:.0f}",
            "{:.2f} ({:.2f}–{:.2f})".format(r["speed_ratio"], *r["interval"]),
        ]
        for r in records
    ]
    header = f"float32, {batches} batches of 2,048 cells a side; {said(about)}"
    return f"{header}\n\n{markdown(columns, lines)}"


def main() -> None:
    """Measures, and writes the table and the records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--directory", default="", help="Multi30k's files; downloaded without")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/training"))
    options = parser.parse_args()
    config = get_config()
    config.data.directory = options.directory
    corpus = config.data.load()
    tokenizer = Tokenizer.train([*corpus.train.source, *corpus.train.target], config.vocabulary)
    system = System(config, tokenizer)
    batches = list(islice(batches_of(corpus, system), options.batches))
    peers = [ours(system), marian(config, len(tokenizer))]
    seconds, about = measure(peers, batches), machine("torch", "transformers")
    records = report(peers, batches, seconds)
    write(options.out, about, records, table(records, len(batches), about))


if __name__ == "__main__":
    main()
