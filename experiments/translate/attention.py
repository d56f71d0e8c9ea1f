"""Pictures of where the decoder looked as it wrote."""

import sys
from pathlib import Path

from attn_jax.diagnostics import plots
from attn_jax.train import State
from experiments.command_line import Command
from experiments.results import show_paths
from experiments.translate.pairs import given_pairs
from experiments.translate.system import System, Translation
from experiments.translate.translation import tell_of_cut
from experiments.translate.workdir import Workdir


def attention(command: Command) -> None:
    """Draws each line of `--input`, or of standard input, as it is translated.

    Where `--target` or a tab gives the target, the decoder is made to write that. The pictures are
    named by their lines, and are put in `--output`, by default the workdir's; a line without a
    source has none.
    """
    workdir = Workdir(command.workdir)
    pairs = given_pairs(command, complete=False)
    system, state = workdir.trained(command.config)
    if not system.attends:
        raise ValueError(f"a {system.name} does not attend, so there is nothing to draw")
    into = Path(command.options["output"] or workdir.pictures)
    for number, (source, target) in enumerate(pairs, 1):
        if not source.strip():
            continue
        if target is None:
            [translation] = system.translate(state.averaged, [source], system.search, chunk=1)
        else:
            translation = system.forced(source, target)
        tell_of_cut(number, translation)
        show_paths([draw(system, state, translation, into / f"line-{number}.png")])
        sys.stdout.flush()


def draw(system: System, state: State, translation: Translation, path: Path) -> Path:
    """Draws every head of the last decoder layer's attention to the source."""
    pieces, eos = system.tokenizer.pieces, system.tokenizer.eos
    [heads] = system.cross_attention(state.averaged, [translation])
    figure = plots.heat_maps(
        heads,
        queries=pieces([*translation.tokens, eos]),
        keys=pieces([*translation.source, eos]),
        title=translation.text,
    )
    return plots.save(figure, path)
