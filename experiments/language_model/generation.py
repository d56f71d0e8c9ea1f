"""The second stage: what the model writes, as it writes it."""

import sys

import jax

from experiments.command_line import Command
from experiments.language_model.workdir import Workdir
from experiments.overrides import UsageError


def generate(command: Command) -> None:
    """Continues `--prompt`, `--samples` times; without a prompt, it begins a document.

    Each piece of text is written to standard output as soon as it is there; the samples have an
    empty line between them. `config.generate` says how tokens are drawn.
    """
    prompt, config = command.options["prompt"] or "", command.config.generate
    count = _count(command.options["samples"])
    system, state = Workdir(command.workdir).trained(command.config)
    rng = jax.random.key(config.seed)
    for number in range(count):
        sys.stdout.write("\n\n" * (number > 0) + prompt)
        drawn = jax.random.fold_in(rng, number)
        for text in system.write(state.params, prompt, system.options, drawn, config.length):
            sys.stdout.write(text)
            sys.stdout.flush()
    sys.stdout.write("\n")


def _count(given: str | None) -> int:
    if given is not None and (not given.isdecimal() or int(given) < 1):
        raise UsageError(f"--samples takes a number of at least 1; given {given!r}")
    return int(given or 1)
