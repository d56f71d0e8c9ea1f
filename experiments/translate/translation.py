"""The third stage: lines in, lines out."""

import contextlib
import sys

from attn_jax.data.files import writing
from attn_jax.data.lines import read_lines
from experiments.command_line import Command
from experiments.translate.evaluation import tell_of_cut
from experiments.translate.workdir import Workdir

CHUNK = 4096


def translate(command: Command) -> None:
    """Translates `--input`, or standard input, to `--output`, or standard output.

    One line is written for each that is read, in their order; blank ones stay blank. Typed at a
    terminal, each is answered at once; else a chunk of them at a time, in bounded memory.
    """
    given, wanted = command.options["input"], command.options["output"]
    lines = read_lines(given or sys.stdin)
    system, state = Workdir(command.workdir).trained(command.config)
    chunk = 1 if not given and sys.stdin.isatty() else CHUNK
    with writing(wanted) if wanted else contextlib.nullcontext(sys.stdout) as output:
        translations = system.translate(state.averaged, lines, system.beam, chunk=chunk)
        for number, translation in enumerate(translations, 1):
            tell_of_cut(number, translation)
            print(translation.text, file=output, flush=chunk == 1)
