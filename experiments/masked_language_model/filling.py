"""The second stage: what the model puts where a sentence has blanks."""

from collections.abc import Sequence
from typing import Any

from experiments.command_line import Command
from experiments.masked_language_model.system import System
from experiments.masked_language_model.workdir import Workdir

SPACE = "▁"  # what a token that begins a word begins with


def fill(command: Command) -> None:
    """Fills in `--text`, or the sentences of the config."""
    given, config = command.options["text"], command.config
    system, state = Workdir(command.workdir).trained(config)
    show_filled(system, state.params, config.fill.sentences if given is None else [given])


def show_filled(system: System, params: Any, sentences: Sequence[str]) -> dict[str, list[Any]]:
    """Prints the candidates of each blank, a line each; returns them, by sentence."""
    found: dict[str, list[Any]] = {}
    for sentence in sentences:
        found[sentence] = system.candidates(params, sentence)
        print(sentence)
        for ranked in found[sentence]:
            print("  " + ", ".join(f"{written(token)} {p:.2f}" for token, p in ranked))
    return found


def written(token: str) -> str:
    """A token as it would stand: what goes on with the word before it has a hyphen in front.

    >>> written("▁if"), written("ing")
    ('if', '-ing')
    """
    return token.removeprefix(SPACE) if token.startswith(SPACE) else f"-{token}"
