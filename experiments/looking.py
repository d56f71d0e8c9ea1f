"""A model looked into: the weights of every head, its numbers, and what is wrong with it."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

from attn_jax.data.files import write_atomically
from attn_jax.diagnostics.examination import counted, examine
from attn_jax.diagnostics.head_map import head_map
from attn_jax.diagnostics.measures import positional
from attn_jax.diagnostics.page_data import kind_and_layer
from attn_jax.diagnostics.plots import heat_maps
from attn_jax.diagnostics.report import Example, Report, head_measures
from attn_jax.diagnostics.verdicts import CHECKS, Verdict, judge
from attn_jax.modules import capture
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
    """Of each attention layer, `b h t s`, by its path."""

    measures: Mapping[str, Mapping[str, np.ndarray]]
    """By name, then by path: `h`."""

    verdicts: Sequence[Verdict]


def look_into(
    call: Callable[..., Any],
    model: nnx.Module,
    *inputs: Any,
    real: Mapping[str, Any] | None = None,
    causal: Iterable[str] = (),
) -> Looked:
    """Runs a model once on some inputs, and looks at all of its attention.

    Args:
      call: a function of the model and the inputs to arrays.
      model: what to look into.
      inputs: of a small batch.
      real: which queries count, `b t`, by beginnings of paths; see `examine`.
      causal: beginnings of paths of what must not see the future.
    """
    graph, state = nnx.split(model)

    def run(state: Any, inputs: Any) -> Any:
        model = nnx.merge(graph, state)
        _, looks = capture(call, model, *inputs)
        weights = OrderedDict((path, look.weights()) for path, look in looks.items())
        places = {
            path: positional(w, counted(real, path))
            for path, w in weights.items()
            if w.shape[-1] == w.shape[-2] and "cross" not in path
        }
        return weights, examine(call, model, *inputs, real=real), places

    found = jax.jit(run, compiler_options=QUICK)(state, inputs)
    weights, numbers, places = jax.device_get(found)
    measures = head_measures(numbers)
    for name in ("previous", "next", "first"):
        measures[f"{name} token"] = {path: getattr(x, name) for path, x in places.items()}
    for path in weights:
        if "cross" in path:  # positions of two sequences are not to be compared
            for name in ("self weight", "distance", "future"):
                measures[name].pop(path, None)
    return Looked(weights, measures, judge(numbers, causal))


def marks(verdicts: Sequence[Verdict]) -> set[tuple[str, int]]:
    """The layers and heads that verdicts are about."""
    return {(x.layer, head) for x in verdicts for head in x.heads}


def show_looked(looked: Looked, console: Console | None = None) -> None:
    """Prints the verdicts, layer × head, what they mean, and measures of each layer."""
    console = console or Console(highlight=False)
    widest = max(w.shape[1] for w in looked.weights.values())
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
            **{name: _range(looked.measures[name].get(path)) for name in PRINTED},
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
    if head >= looked.weights[path].shape[1]:
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
