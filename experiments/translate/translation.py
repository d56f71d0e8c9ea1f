"""The third stage: lines in, lines out."""

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

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


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[TextIO]:
    """A text file to write to, which takes its place at the end, whole or not at all.

    A symbolic link is followed. What is there and is no file, such as a pipe or `/dev/null`, is
    written to as it is, and never replaced.

    Raises:
      FileNotFoundError: there is no such directory.
      IsADirectoryError: it is one.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no directory {target.parent} to write {target.name} to")
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8", newline="\n") as file:
            yield file
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
