"""A model looked into: the weights of every head, its numbers, and what is wrong with it."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from attn_jax.data.files import write_atomically
from attn_jax.diagnostics.examination import examine
from attn_jax.diagnostics.head_map import head_map
from attn_jax.diagnostics.page_data import kind_and_layer
from attn_jax.diagnostics.plots import heat_maps
from attn_jax.diagnostics.report import Example, Map, Report, head_measures
from attn_jax.diagnostics.rows import grouped_weights
from attn_jax.diagnostics.verdicts import CHECKS, Verdict, judge
from attn_jax.modules import Look, capture
from experiments.results import show

PICTURED = ("entropy", "distance", "influence")
PRINTED = ("entropy", "self weight", "influence")  # what fits a line; the page has them all
LETTERS = dict(zip(CHECKS, "NFSIUAD", strict=True))
QUICK = {
    "xla_backend_optimization_level": 0
}  # it runs rarely, so that compiling is what takes time


class Looked(NamedTuple):
    """What was seen of a model on some inputs."""

    weights: Mapping[str, np.ndarray]
    """Of each attention layer, `b h t s`, by its path; of windows `b w h t t`."""

    measures: Mapping[str, Mapping[str, np.ndarray]]
    """By name, then by path: `h`."""

    verdicts: Sequence[Verdict]


def look_into(
    call: Callable[..., Any],
    model: nnx.Module,
    *inputs: Any,
    real: Mapping[str, Any] | None = None,
    causal: Iterable[str] = (),
    keys: Callable[[str], Mapping[str, Any]] | None = None,
    groups: np.ndarray | None = None,
) -> Looked:
    """Runs a model once on some inputs, and looks at all of its attention.

    Args:
      call: a function of the model and the inputs to arrays.
      model: what to look into.
      inputs: of a small batch.
      real: which queries count, `b t`, by beginnings of paths; see `examine`.
      causal: beginnings of paths of what must not see the future.
      keys: of a path, booleans `b s` by name: what else weight may lie on.
      groups: of each token of one sequence, which token of the page it is part of, `t`; each its own
        where None. Numbers and verdicts are of the tokens themselves.
    """
    graph, state = nnx.split(model)

    def shown(look: Look) -> Any:
        if groups is None:
            return look.weights()
        return grouped_weights(look, jnp.asarray(groups), int(groups.max()) + 1)

    def run(state: Any, inputs: Any) -> Any:
        model = nnx.merge(graph, state)
        _, looks = capture(call, model, *inputs)
        weights = OrderedDict((path, shown(look)) for path, look in looks.items())
        return weights, examine(call, model, *inputs, real=real, keys=keys)

    weights, numbers = jax.device_get(jax.jit(run, compiler_options=QUICK)(state, inputs))
    measures = head_measures(numbers)
    for path in weights:
        if "cross" in path:  # positions of two sequences are not to be compared
            for name in ("self weight", "distance", "future"):
                measures[name].pop(path, None)
    return Looked(weights, measures, judge(numbers, causal))


def translation_maps(
    looked: Looked, row: int, read: Sequence[str], inputs: Sequence[str], wrote: Sequence[str]
) -> list[Map]:
    """The maps of one translation: cross-attention first, which most people come to see.

    Args:
      looked: of a Transformer.
      row: of the batch.
      read: what the encoder was given, `s`.
      inputs: what the decoder was given, `t`.
      wrote: what it was to write at each of these, `t`.
    """
    maps = []
    for path, weights in looked.weights.items():
        queries = read if path.startswith("encoder") else wrote
        keys = inputs if path.startswith("decoder") and "cross" not in path else read
        maps.append(Map(path, weights[row, :, : len(queries), : len(keys)], queries, keys))
    return sorted(maps, key=lambda x: "cross" not in x.path)


def marks(verdicts: Sequence[Verdict]) -> set[tuple[str, int]]:
    """The layers and heads that verdicts are about."""
    return {(x.layer, head) for x in verdicts for head in x.heads}


def show_looked(looked: Looked, console: Console | None = None) -> None:
    """Prints the verdicts, layer × head, what they mean, and measures of each layer."""
    console = console or Console(highlight=False)
    widest = max(w.shape[-3] for w in looked.weights.values())
    rows = [
        {
            "layer": path or "attention",
            **{str(head): _letters(looked, path, head) for head in range(widest)},
        }
        for path in looked.weights
    ]
    show("Verdicts, layer × head", rows, console)
    for name in dict.fromkeys(x.check.name for x in looked.verdicts):
        check = CHECKS[name]
        remedy = f"{check.remedy[0].upper()}{check.remedy[1:]}"
        console.print(Text(f"{LETTERS[name]}  {name}: {check.reason}. {remedy}."), soft_wrap=True)
    if not looked.verdicts:
        console.print(Text(f"Nothing was found of: {', '.join(CHECKS)}."), soft_wrap=True)
    rows = [
        {
            "layer": path or "attention",
            **{
                name: _range(by_path.get(path))
                for name in PRINTED
                if (by_path := looked.measures.get(name))
            },
        }
        for path in looked.weights
    ]
    show("Measures, the least and the largest of a layer's heads", rows, console)


def pictures(looked: Looked, examples: Sequence[Example]) -> dict[str, Figure]:
    """Layers × heads of some measures, and of each example the last layer of each kind, by name."""
    drawn: dict[str, Figure] = {}
    for name in PICTURED:
        if by_path := looked.measures.get(name):
            drawn[f"heads-{name}"] = head_map(
                {path or "attention": x for path, x in by_path.items()},
                name=name,
                marked={(path or "attention", head) for path, head in marks(looked.verdicts)},
            )
    for number, example in enumerate(examples, 1):
        last = {kind_and_layer(x.path)[0]: x for x in example.maps}
        for kind, x in last.items():
            if not example.picture and np.isfinite(x.weights).all():
                name = f"example-{number}-{kind.replace(' ', '-')}"
                drawn[name] = heat_maps(x.weights, x.queries, x.keys, example.title)
    return drawn


def write_numbers(path: Path, looked: Looked) -> Path:
    """All measures and verdicts as JSON, numbers that are none as null."""
    measures = {
        name: {layer: [_finite(x) for x in values.tolist()] for layer, values in by_path.items()}
        for name, by_path in looked.measures.items()
    }
    verdicts = [
        {
            "check": x.check.name,
            "layer": x.layer,
            "heads": list(x.heads),
            "found": _finite(x.found),
            "note": x.note,
        }
        for x in looked.verdicts
    ]
    text = json.dumps({"measures": measures, "verdicts": verdicts}, indent=2, allow_nan=False)
    return write_atomically(path, text + "\n")


def page(title: str, looked: Looked, examples: Sequence[Example], **more: Any) -> Report:
    """The page of what was seen; `more` are further fields of a :class:`Report`."""
    return Report(
        title,
        examples=examples,
        measures=looked.measures,
        verdicts=looked.verdicts,
        **more,
    )


def _letters(looked: Looked, path: str, head: int) -> str:
    """The checks that a head fails, a letter each; a dot where it is well, nothing where it is not."""
    if head >= looked.weights[path].shape[-3]:
        return ""
    found = [x for x in looked.verdicts if x.layer == path and (not x.heads or head in x.heads)]
    return "".join(LETTERS[x.check.name] for x in found) or "·"


def _range(values: np.ndarray | None) -> str:
    if values is None or not np.isfinite(values).any():
        return ""
    least, most = np.nanmin(values), np.nanmax(values)
    ends = [f"{x:.2g}" for x in (least, most)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
