"""The page of a translation run: where the model looked as it read and wrote, and how it was trained."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attn_jax.diagnostics.report import Example, Map, Report
from attn_jax.train import State
from attn_jax.train.metrics import whole_lines
from experiments.looking import Looked, look_into, page
from experiments.translate.system import System, Translation
from experiments.translate.workdir import Workdir, plain

LONGEST = 128  # tokens of either side that are looked at
ROWS = "A row of the decoder is the token it wrote, a column what it had read."


def look(
    system: System, state: State, translations: Sequence[Translation]
) -> tuple[Looked | None, list[Example]]:
    """Every attention of the model as it reads sources and writes these translations again.

    Returns:
      What was seen, None where the model keeps its attention to itself; and an example for each
      translation.
    """
    bos, eos = system.tokenizer.bos, system.tokenizer.eos
    sides = [
        ([*x.source[: LONGEST - 1], eos], [bos, *x.tokens[: LONGEST - 1]]) for x in translations
    ]
    source, inputs = (_padded(side) for side in zip(*sides))
    model = system.model(state.averaged)
    real = {"encoder": source != 0, "decoder": inputs != 0}
    if not hasattr(model, "encoder"):
        return None, _alone(system, state, translations)
    looked = look_into(type(model).__call__, model, source, inputs, real=real, causal=("decoder",))
    pieces = system.tokenizer.pieces
    examples = []
    for row, (read, written) in enumerate(sides):
        tokens = {"source": pieces(read), "read": pieces(written)}
        tokens["wrote"] = [*tokens["read"][1:], pieces([eos])[0]]
        maps = []
        for path, weights in looked.weights.items():
            queries = tokens["source" if path.startswith("encoder") else "wrote"]
            decoder = path.startswith("decoder") and "cross" not in path
            keys = tokens["read" if decoder else "source"]
            maps.append(Map(path, weights[row, :, : len(queries), : len(keys)], queries, keys))
        examples.append(Example(_title(system, translations[row]), _last_first(maps)))
    return looked, examples


def translation_page(
    system: System,
    looked: Looked | None,
    examples: Sequence[Example],
    workdir: Workdir,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Report:
    """What there is to see of a run, with its training curves and its config."""
    pair = getattr(system.config.data, "pair", "")
    more: dict[str, Any] = {
        "subtitle": f"{system.parameters:,} parameters. {ROWS if examples else ''}",
        "metrics": whole_lines(workdir.path / "metrics.jsonl"),
        "tables": tables or {},
        "config": plain(system.config),
    }
    title = f"{system.name}{f', {pair}' if pair else ''}"
    if looked is None:
        return Report(title, examples=examples, **more)
    return page(title, looked, examples, **more)


def _alone(system: System, state: State, translations: Sequence[Translation]) -> list[Example]:
    """The attention to the source of a model that shows no other."""
    if not system.attends or not translations:
        return []
    pieces, eos = system.tokenizer.pieces, system.tokenizer.eos
    return [
        Example(
            _title(system, x),
            [Map("cross_attention", w, pieces([*x.tokens, eos]), pieces([*x.source, eos]))],
        )
        for x, w in zip(translations, system.cross_attention(state.averaged, translations))
    ]


def _title(system: System, translation: Translation) -> str:
    return f"{system.tokenizer.decode(translation.source)} → {translation.text}"


def _last_first(maps: list[Map]) -> list[Map]:
    """Cross-attention before the others: it is what most people come to see."""
    return sorted(maps, key=lambda x: "cross" not in x.path)


def _padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    found = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, tokens in zip(found, rows):
        row[: len(tokens)] = tokens
    return found
