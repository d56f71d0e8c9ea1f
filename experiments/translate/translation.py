"""The third stage: lines in, lines out."""

import contextlib
import dataclasses
import sys

from attn_jax.data.files import writing
from attn_jax.data.lines import read_lines
from attn_jax.decode.search import Beam, Sample
from experiments.command_line import Command
from experiments.translate.pairs import chunk_of
from experiments.translate.system import Translation
from experiments.translate.workdir import Workdir


def translate(command: Command) -> None:
    """Translates `--input`, or standard input, to `--output`, or standard output.

    One line is written for each that is read, in their order; blank ones stay blank. With
    `--nbest=N`, up to N lines are written for each, best first, or as they are drawn: the line's
    number, what the translation was ranked by, its log-probability and itself, with tabs between.
    Typed at a terminal, each line is answered at once; else a chunk of them at a time, in bounded
    memory.
    """
    given, wanted = command.options["input"], command.options["output"]
    lines = read_lines(given or sys.stdin)
    system, state = Workdir(command.workdir).trained(command.config)
    count, options = _count(command.options["nbest"], command.config.decode.beam), system.search
    if count is not None:
        options = (
            dataclasses.replace(options, size=count)
            if isinstance(options, Sample)
            else dataclasses.replace(options or Beam(1), best=count)
        )
    chunk = chunk_of(command)
    with writing(wanted) if wanted else contextlib.nullcontext(sys.stdout) as output:
        found = system.n_best(state.averaged, lines, options, chunk=chunk)
        for number, translations in enumerate(found, 1):
            tell_of_cut(number, translations[0])
            for x in translations:
                scores = (
                    "" if count is None else f"{number}\t{x.score:.4f}\t{x.log_probability:.4f}\t"
                )
                print(scores + x.text, file=output, flush=chunk == 1)


def tell_of_cut(number: int, translation: Translation) -> None:
    """Says so if a line was longer than what the model reads."""
    if translation.cut:
        read, cut = len(translation.source), translation.cut
        print(
            f"line {number} has {read + cut} tokens; only the first {read} were translated",
            file=sys.stderr,
        )


def _count(given: str | None, most: int) -> int | None:
    """How many translations of each line are wanted; None where it was not said."""
    if given is None:
        return None
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise ValueError(
            f"--nbest takes a number from 1 to decode.beam, {most}; given {given!r}. For more give"
            " --config.decode.beam=N as well"
        )
    return int(given)
