"""How probable given translations are."""

import contextlib
import itertools
import math
import sys

from attn_jax.data.files import writing
from experiments.command_line import Command
from experiments.translate.pairs import chunk_of, given_pairs
from experiments.translate.workdir import Workdir


def score(command: Command) -> None:
    """Scores the pairs of `--input` and `--target`, or `source TAB target` lines.

    One line is written for each pair, to `--output` or standard output: the natural log-probability
    of the target and its end, given the source, and the perplexity of its tokens, with a tab
    between. A pair of two blank sides is answered by a blank line. The perplexity of all is told at
    the end.
    """
    wanted = command.options["output"]
    pairs, copies = itertools.tee(given_pairs(command))
    system, state = Workdir(command.workdir).trained(command.config)
    total, tokens, count = 0.0, 0, 0
    with writing(wanted) if wanted else contextlib.nullcontext(sys.stdout) as output:
        sides, chunk = ((s, t or "") for s, t in pairs), chunk_of(command)
        scores = system.score(state.averaged, sides, chunk=chunk)
        for number, (found, pair) in enumerate(zip(scores, copies), 1):
            if not any(side and side.strip() for side in pair):
                print(file=output)
                continue
            for side, cut in zip(("source", "target"), found.cut):
                if cut:
                    print(f"line {number}: the last {cut} tokens of the {side} are beyond what the"
                          " model reads, and were left out", file=sys.stderr)  # fmt: skip
            perplexity = math.exp(-found.log_probability / found.tokens)
            print(f"{found.log_probability:.4f}\t{perplexity:.4f}", file=output, flush=chunk == 1)
            total, tokens, count = total + found.log_probability, tokens + found.tokens, count + 1
    if tokens:
        print(
            f"{count:,} pairs, {tokens:,} target tokens, perplexity {math.exp(-total / tokens):.4f}",
            file=sys.stderr,
        )
