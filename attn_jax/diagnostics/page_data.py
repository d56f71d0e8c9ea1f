"""A report as the script of its page reads it."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.typing import ArrayLike

from attn_jax.diagnostics.fonts import visible
from attn_jax.diagnostics.verdicts import CHECKS, Verdict

if TYPE_CHECKING:
    from attn_jax.diagnostics.report import Map, Report

STEPS = 254  # of a head's largest weight; the byte 255 stands for what is not a number
NOT_A_NUMBER = 255

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


def page_data(report: Report) -> dict[str, Any]:
    """A report as JSON can hold it; sequences of tokens that are equal are there once.

    Raises:
      ValueError: weights that do not fit their tokens, or are negative or infinite.
    """
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
        "cells": _cells(given),
        "largest": _numbers(largest),
        "weights": base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode(),
    }


def _cells(given: Map) -> dict[str, Any] | None:
    if given.cells is None:
        return None
    rows, columns, of = given.cells
    if not len(given.queries) == len(given.keys) == len(of) or max(of) >= rows * columns:
        raise ValueError(
            f"expected a cell below {rows * columns} for each of {len(given.queries)} queries, which"
            f" are keys as well; there are {len(given.keys)} keys and {len(of)} cells"
        )
    return {"rows": rows, "columns": columns, "of": [int(cell) for cell in of]}


def _picture(png: bytes | None) -> str | None:
    return None if png is None else f"data:image/png;base64,{base64.b64encode(png).decode()}"


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
