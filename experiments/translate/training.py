"""The first stage: load, build, train, and judge the checkpoints on the validation split."""

import dataclasses
import math
import sys
from collections.abc import Callable

from attn_jax.data.batches import Batches, PairBatches
from attn_jax.data.evaluation import evaluation_batches
from attn_jax.data.packing import PackedBatches
from attn_jax.data.splits import Corpus
from attn_jax.train import State, fit, hold, make_evaluate, make_step
from attn_jax.train.distributed import first_alone, is_first
from experiments.command_line import Command
from experiments.overrides import UsageError
from experiments.translate.config import Model, Published
from experiments.translate.evaluation import report
from experiments.translate.page import count_verdicts
from experiments.translate.quality import progress
from experiments.translate.system import System
from experiments.translate.workdir import Workdir, left_once


def train(command: Command) -> None:
    """Trains to the end, from the newest checkpoint if there is one; then reports on the test."""
    config, workdir = command.config, Workdir(command.workdir)
    corpus = config.data.load()
    judged = len(corpus.validation) > 0
    plan = config.train.plan(evaluates=judged)
    plan = dataclasses.replace(plan, profile=_profiled(command))
    config.mesh.layout(config.model)  # refused, if it is, before the workdir is touched
    if config.batches.packed and not isinstance(config.model, Model | Published):
        raise ValueError(
            "batches.packed puts several pairs into a row, which only the Transformer keeps from each "
            "other; give --config.batches.packed=False"
        )
    with hold(workdir.path):
        first_alone(lambda: workdir.begin(config, corpus))
        tokenizer = workdir.tokenizer_of(config)
        system = System(config, tokenizer)
        step = make_step(
            system.loss,
            system.optimizer,
            system.layout,
            accumulate=config.train.accumulate,
            ema_decay=config.train.ema,
            skip=config.train.skip,
            precision=system.precision,
        )
        batches = batches_of(corpus, system)
        run = workdir.run(config, tokenizer=tokenizer.fingerprint, batches=batches.identity)
        fit(
            system.initial_state(),
            step,
            iter(batches),
            plan=plan,
            run=run,
            evaluate=judge(system, corpus) if judged else None,
            watch=verdicts(system, corpus) if judged else None,
        )
        with left_once(workdir.path) as left:
            report(system, workdir.best(system), corpus, workdir, left=left)


def _profiled(command: Command) -> int | None:
    first = command.options["profile"]
    if first is None:
        return None
    if not first.isdecimal() or int(first) < 1:
        raise UsageError(f"expected --profile of a step from 1, got {first!r}")
    return int(first)


def batches_of(corpus: Corpus, system: System) -> PairBatches:
    """The training split, tokenised and batched; says how many pairs are too long."""
    config, encode = system.config, system.tokenizer.encode_batch
    hosts, divisor = system.layout.share[1], config.batches.divisor
    if divisor % hosts:
        raise ValueError(
            f"expected {hosts} hosts to divide batches.divisor, {divisor}; "
            f"give --config.batches.divisor={math.lcm(divisor, hosts)}"
        )
    settings = dataclasses.asdict(config.batches)
    if packed := settings.pop("packed"):
        del settings["buckets"]
    batches = (PackedBatches if packed else Batches)(
        encode(corpus.train.source),
        encode(corpus.train.target),
        seed=config.seed,
        shard=system.layout.share,
        **settings,
    )
    if batches.dropped and is_first():
        print(
            f"{batches.dropped} of {len(corpus.train)} pairs have a side of more than"
            f" {config.batches.longest} tokens, and are left out of training",
            file=sys.stderr,
        )
    return batches


def judge(system: System, corpus: Corpus) -> Callable[[State], dict[str, float]]:
    """Scores a state on the validation split: BLEU and chrF of greedy translations, and the loss."""
    config, encode = system.config, system.tokenizer.encode_batch
    count = config.train.validation or len(corpus.validation)
    source, target = corpus.validation.source[:count], corpus.validation.target[:count]
    longest, share = config.decode.longest, system.layout.share
    rows = math.lcm(64, share[1])
    batches = list(
        evaluation_batches(encode(source), encode(target), rows=rows, longest=longest, shard=share)
    )
    loss = make_evaluate(system.loss, system.layout, system.precision)

    def evaluate(state: State) -> dict[str, float]:
        translations = system.translate(state.averaged, source, None)
        scores = progress([t.text for t in translations], target, corpus.target_language)
        return {**scores, **loss(state.averaged, batches)}

    return evaluate


def verdicts(system: System, corpus: Corpus) -> Callable[[State], dict[str, float]] | None:
    """Judges every head of a state on a few sentences of the validation split, if that is asked for."""
    looked = system.config.train.verdicts
    sentences = corpus.validation.source[:looked], corpus.validation.target[:looked]
    return count_verdicts(system, *sentences) if looked else None
