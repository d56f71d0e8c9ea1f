"""A page to explore: one HTML file, with everything in it, that a browser opens from the disk."""

from __future__ import annotations

import json
import os
import string
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
from attn_jax.diagnostics.page_data import page_data
from attn_jax.diagnostics.verdicts import Verdict

SCRIPTS = ("start", "colours", "weights", "heads", "map", "lines", "image", "verdicts", "curves")


class Cells(NamedTuple):
    """Where on an image the tokens of a map are."""

    rows: int
    columns: int

    of: Sequence[int]
    """For each token its cell, counted row by row; −1 for one that is nowhere, as a class token."""


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

    cells: Cells | None = None
    """Of the example's picture; of a sequence on itself."""


class Example(NamedTuple):
    """Something the model was given, and where it looked."""

    title: str
    maps: Sequence[Map]
    focus: int | None = None
    """The query that is chosen at first."""

    picture: bytes | None = None
    """An image as PNG, under those maps that have cells."""


@dataclass(frozen=True)
class Report:
    """What a page shows; what is left out has no section.

    Args:
      title: of the page.
      subtitle: a sentence below it.
      examples: what to look into.
      measures: of heads: by name, then by path of the layer, `h` numbers; those of `page_data.MEASURES`
        are explained.
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
    content = json.dumps(page_data(report), ensure_ascii=False, allow_nan=False)
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
    own = {path: x.positional for path, x in numbers.items() if x.positional is not None}
    for name in ("previous", "next", "first"):
        add(f"{name} token", {path: getattr(x, name) for path, x in own.items()})
    for name in dict.fromkeys(name for x in numbers.values() for name in x.on):
        add(name, {path: x.on[name] for path, x in numbers.items() if name in x.on})
    return found


def _file(name: str) -> str:
    return resources.files("attn_jax.diagnostics").joinpath("page", name).read_text("utf-8")
