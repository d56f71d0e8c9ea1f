"""A page to explore: one HTML file, with everything in it, that a browser opens from the disk."""

from __future__ import annotations

import base64
import json
import math
import os
import string
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from attn_jax.data.files import write_atomically
from attn_jax.diagnostics.examination import HeadNumbers
from attn_jax.diagnostics.fonts import visible
from attn_jax.diagnostics.verdicts import CHECKS, Verdict

STEPS = 254  # of a head's largest weight; the byte 255 stands for what is not a number
NOT_A_NUMBER = 255
SCRIPTS = ("start", "colours", "weights", "heads", "map", "lines", "image", "verdicts", "curves")

MEASURES = {
    "entropy": "mean entropy of a query's weights, nats: 0 looks at one key alone",
    "uniformity": "entropy as a share of that of looking evenly at all that is visible",
    "certain": "share of queries that put more than 0.99 on one key",
    "self weight": "mean weight on the query's own position",
    "distance": "mean distance to what is looked at, positions",
    "largest score": "largest score before the softmax",
    "saturated": "share of queries with a score over 30",
    "influence": "how much the output moves with the head's gate",
    "future": "most weight of a query on keys after it",
    "previous token": "mean weight on the token before",
    "next token": "mean weight on the token after",
    "first token": "mean weight on the first token",
}
"""What the numbers of a head mean, in the words of the page; docs/seeing.md has their formulas."""


class Map(NamedTuple):
    """Where the heads of one attention layer look."""

    path: str
    """Of the module: "decoder.1.cross_attention". Numbers in it count layers, the rest is their kind."""

    weights: ArrayLike
    """`h t s`, not negative, of real tokens only; NaN is shown as such."""

    queries: Sequence[str]
    """The tokens of the rows, `t`."""

    keys: Sequence[str]
    """The tokens of the columns, `s`."""


class Picture(NamedTuple):
    """An image whose patches are the last tokens of a sequence, row by row."""

    png: bytes
    rows: int
    columns: int
    first: int = 0
    """How many tokens stand before the patches, as a class token."""


class Example(NamedTuple):
    """Something the model was given, and where it looked."""

    title: str
    maps: Sequence[Map]
    focus: int | None = None
    """The query that is chosen at first."""

    picture: Picture | None = None


@dataclass(frozen=True)
class Report:
    """What a page shows; what is left out has no section.

    Args:
      title: of the page.
      subtitle: a sentence below it.
      examples: what to look into.
      measures: of heads: by name, then by path of the layer, `h` numbers; those of `MEASURES` are
        explained.
      verdicts: of :func:`attn_jax.diagnostics.verdicts.judge`; an empty list is a healthy model,
        None one that was not examined.
      metrics: lines of metrics.jsonl: "step", "split", and numbers to draw against the step.
      tables: by title, rows of the same columns.
      config: nested dictionaries.
    """

    title: str
    subtitle: str = ""
    examples: Sequence[Example] = ()
    measures: Mapping[str, Mapping[str, ArrayLike]] = field(default_factory=dict)
    verdicts: Sequence[Verdict] | None = None
    metrics: Iterable[Mapping[str, Any]] = ()
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


def write_report(path: str | os.PathLike, report: Report) -> Path:
    """Writes a page that needs nothing but itself: no network, no server, no other file.

    Weights are kept in 254 steps of each head's largest one, and compressed: what is shown is within
    1/508 of that of the array. Tokens and all other text are text wherever they appear, also where
    they look like HTML.

    Args:
      path: where to write, whole or not at all.
      report: what is on it.

    Raises:
      ValueError: weights that do not fit their tokens, or are negative or infinite.

    >>> import tempfile
    >>> weights = np.array([[[0.9, 0.1], [0.2, 0.8]]])
    >>> example = Example("le chat", [Map("0.attention", weights, ["le", "chat"], ["the", "cat"])])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = write_report(f"{directory}/report.html", Report("A cat", examples=[example]))
    ...     path.read_text("utf-8").splitlines()[0]
    '<!doctype html>'
    """
    content = json.dumps(_content(report), ensure_ascii=False, allow_nan=False)
    template = string.Template(_file("page.html"))
    page = template.substitute(
        title=escape(report.title),
        style=_file("page.css"),
        data=content.replace("<", r"\u003c"),
        script="\n".join(_file(f"{name}.js") for name in SCRIPTS),
    )
    return write_atomically(path, page.encode("utf-8", "replace"))


def head_measures(numbers: Mapping[str, HeadNumbers]) -> dict[str, dict[str, np.ndarray]]:
    """The measures of an examination, as a :class:`Report` takes them.

    >>> head_measures({})["entropy"]
    {}
    """
    found: dict[str, dict[str, np.ndarray]] = {}

    def add(name: str, values: Mapping[str, Any]) -> None:
        found[name] = {path: np.asarray(x) for path, x in values.items() if x is not None}

    add("entropy", {path: x.summary.entropy for path, x in numbers.items()})
    add("uniformity", {path: x.uniformity for path, x in numbers.items()})
    add("certain", {path: x.summary.certain for path, x in numbers.items()})
    add("self weight", {path: x.summary.self_weight for path, x in numbers.items()})
    add("distance", {path: x.summary.distance for path, x in numbers.items()})
    add("largest score", {path: x.summary.max_score for path, x in numbers.items()})
    add("saturated", {path: x.summary.saturated for path, x in numbers.items()})
    add("influence", {path: x.influence for path, x in numbers.items()})
    add("future", {path: x.future for path, x in numbers.items()})
    return found


def kind_and_layer(path: str) -> tuple[str, str]:
    """What kind of attention a path is of, and which layer.

    >>> kind_and_layer("decoder.1.cross_attention"), kind_and_layer("")
    (('decoder cross-attention', '1'), ('attention', '0'))
    """
    words = [part.replace("_", "-") for part in path.split(".") if part and not part.isdecimal()]
    layer = ".".join(part for part in path.split(".") if part.isdecimal())
    return " ".join(word for word in words if word != "layers") or "attention", layer or "0"


def quantised(weights: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Weights in 254 steps of each head's largest.

    Args:
      weights: `h t s`.

    Returns:
      Bytes, `h t s`, 255 where it is not a number; and each head's largest weight, `h`.

    >>> quantised([[[0.5, 0.25, 0.0, np.nan]]])
    (array([[[254, 127,   0, 255]]], dtype=uint8), array([0.5]))
    """
    weights = np.asarray(weights, np.float64)
    known = np.isfinite(weights)
    largest = np.where(known, weights, 0).max((1, 2), initial=0)
    unit = np.where(largest > 0, largest, 1)[:, None, None]
    steps = np.rint(np.where(known, weights, 0) / unit * STEPS)
    return np.where(known, steps, NOT_A_NUMBER).astype(np.uint8), largest


def _content(report: Report) -> dict[str, Any]:
    sequences: dict[tuple[str, ...], int] = {}

    def number_of(tokens: Sequence[str]) -> int:
        return sequences.setdefault(tuple(map(visible, tokens)), len(sequences))

    examples = [
        {
            "title": visible(example.title),
            "focus": example.focus,
            "picture": _picture(example.picture),
            "maps": [_map(x, number_of) for x in example.maps],
        }
        for example in report.examples
    ]
    return {
        "title": report.title,
        "subtitle": report.subtitle,
        "sequences": [list(tokens) for tokens in sequences],
        "examples": examples,
        "steps": STEPS,
        "measures": [
            {
                "name": name,
                "meaning": MEASURES.get(name, ""),
                "values": {path: _numbers(x) for path, x in by_path.items()},
            }
            for name, by_path in report.measures.items()
            if by_path
        ],
        "checks": None if report.verdicts is None else _checks(report.verdicts),
        "curves": _curves(report.metrics),
        "tables": [_table(title, rows) for title, rows in report.tables.items() if rows],
        "config": [[name, _plain(value)] for name, value in _leaves(report.config)],
    }


def _map(given: Map, number_of: Any) -> dict[str, Any]:
    weights = np.asarray(given.weights)
    shape = (len(given.queries), len(given.keys))
    if weights.ndim != 3 or weights.shape[1:] != shape or not weights.size:
        raise ValueError(
            f"expected weights of {given.path or 'attention'} for {shape[0]} queries and {shape[1]} "
            f"keys, h t s, at least one of each; their shape is {weights.shape}"
        )
    if (np.nan_to_num(weights) < 0).any() or np.isinf(weights).any():
        raise ValueError(f"expected weights of {given.path or 'attention'} from 0 up, not infinite")
    steps, largest = quantised(weights)
    kind, layer = kind_and_layer(given.path)
    return {
        "path": given.path,
        "kind": kind,
        "layer": layer,
        "queries": number_of(given.queries),
        "keys": number_of(given.keys),
        "largest": _numbers(largest),
        "weights": base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode(),
    }


def _picture(picture: Picture | None) -> dict[str, Any] | None:
    if picture is None:
        return None
    source = f"data:image/png;base64,{base64.b64encode(picture.png).decode()}"
    return {**picture._asdict(), "png": source}


def _checks(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            **check._asdict(),
            "found": [
                {
                    "path": x.layer,
                    "heads": list(x.heads),
                    "value": _plain(float(x.found)),
                    "note": x.note,
                }
                for x in verdicts
                if x.check.name == check.name
            ],
        }
        for check in CHECKS.values()
    ]


def _curves(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By measure and split, the steps and the values that are numbers."""
    curves: dict[str, dict[str, list[list[float]]]] = {}
    for line in lines:
        for name, value in line.items():
            if name in ("step", "split") or not isinstance(value, int | float):
                continue
            if math.isfinite(value):
                points = curves.setdefault(name, {}).setdefault(str(line.get("split", "")), [])
                points.append([line["step"], value])
    return [
        {"name": name, "lines": [{"split": split, "points": x} for split, x in splits.items()]}
        for name, splits in curves.items()
    ]


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "title": title,
        "columns": list(rows[0]),
        "rows": [[_plain(x) for x in row.values()] for row in rows],
    }


def _leaves(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers to six digits, none for what is not one, and text."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return str(value)


def _numbers(values: ArrayLike) -> list[Any]:
    return [_plain(float(x)) for x in np.asarray(values).ravel()]


def _file(name: str) -> str:
    return resources.files("attn_jax.diagnostics").joinpath("page", name).read_text("utf-8")
