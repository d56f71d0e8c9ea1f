"""What a practitioner would check of a model's attention, with thresholds, reasons and remedies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from attn_jax.diagnostics import measures
from attn_jax.diagnostics.examination import HeadNumbers


class Check(NamedTuple):
    """One way in which attention goes wrong."""

    name: str
    threshold: float
    reason: str
    remedy: str


CHECKS = {
    check.name: check
    for check in (
        Check(
            "not finite",
            0,
            "a number is NaN or infinite, and everything after it will be",
            "look at the inputs of this layer, at the learning rate, and at what was masked with a "
            "number instead of a boolean",
        ),
        Check(
            "future visible",
            1e-6,
            "a token that is to be predicted can be read; training looks wonderful and means nothing",
            "join masks.causal() to the rule, and check the offset and the positions",
        ),
        Check(
            "scores too large",
            0.05,
            "more than this share of queries has a score over 30: the softmax is a step there and "
            "passes no gradient",
            "scale scores by 1/√d, normalise queries and keys, cap scores with transforms.soft_cap, "
            "or lower the learning rate",
        ),
        Check(
            "diagonal only",
            0.9,
            "on average this much weight is on the query itself: the head moves nothing between "
            "positions",
            "check that the mask shows other tokens and that queries and keys have projections of "
            "their own",
        ),
        Check(
            "uniform",
            0.98,
            "entropy is this share of that of looking everywhere evenly: the head is an average",
            "expected before training; after it, check that scores reach the size of 1, and whether "
            "the head is needed",
        ),
        Check(
            "heads alike",
            0.01,
            "weights differ by less than this many bits on average: one head would do",
            "use fewer heads, or dropout on attention weights; expected before training",
        ),
        Check(
            "dead",
            1e-3,
            "the output moves by less than this share of what a mean head of the layer moves it",
            "check that values and the output projection are not zero; prune it",
        ),
    )
}


class Verdict(NamedTuple):
    """A check that a head or a layer did not pass."""

    check: Check
    layer: str
    heads: tuple[int, ...]
    """Which heads, or none where it is the layer's."""

    found: float
    """What the threshold was compared with; the worst of the heads."""

    note: str = ""

    def __str__(self) -> str:
        heads = ", ".join(map(str, self.heads))
        where = f"{self.layer or 'attention'}{f', head {heads}' if heads else ''}"
        note = f" ({self.note})" if self.note else ""
        return f"{where}: {self.check.name}, {self.found:.3g}{note}: {self.check.reason}"


def judge(numbers: Mapping[str, HeadNumbers], causal: Iterable[str] = ()) -> list[Verdict]:
    """Every check on every layer; an empty list is a healthy model.

    Args:
      numbers: of :func:`attn_jax.diagnostics.examination.examine`.
      causal: beginnings of the paths of layers that must not see the future, as "decoder"; of
        those, what has "cross" in its path looks at a memory, and may see all of it.

    Raises:
      ValueError: a beginning that no path has.

    >>> judge({})
    []
    """
    causal = tuple(causal)
    for prefix in causal:
        if not any(path.startswith(prefix) for path in numbers):
            raise ValueError(f"no attention at {prefix!r}: there is {list(numbers)}")
    broken = _not_finite(numbers)
    if broken:
        return broken  # what comes after a NaN says nothing
    verdicts = []
    for path, layer in numbers.items():
        own = "cross" not in path
        summary = layer.summary
        found: list[tuple[str, np.ndarray, np.ndarray]] = []

        def over(name: str, values: object, found: list = found) -> None:
            values = np.asarray(values, np.float64)
            found.append((name, values, values > CHECKS[name].threshold))

        if own and any(path.startswith(prefix) for prefix in causal) and layer.future is not None:
            over("future visible", layer.future)
        over("scores too large", summary.saturated)
        if own:
            over("diagonal only", summary.self_weight)
        over("uniform", layer.uniformity)
        share = np.asarray(layer.influence, np.float64)
        share = share / max(share.mean(), np.finfo(np.float64).tiny)
        found.append(("dead", share, share < CHECKS["dead"].threshold))
        for name, values, failed in found:
            if failed.any():
                worst = values[failed].min() if name == "dead" else values[failed].max()
                heads = tuple(np.flatnonzero(failed).tolist())
                verdicts.append(Verdict(CHECKS[name], path, heads, float(worst)))
        verdicts += _alike(path, layer)
    return verdicts


def _not_finite(numbers: Mapping[str, HeadNumbers]) -> list[Verdict]:
    """The first layer whose output is not finite, and which of its inputs already were not."""
    for path, layer in numbers.items():
        if not layer.finite.output:
            bad = [name for name, finite in layer.finite._asdict().items() if not finite]
            note = f"in its {', '.join(bad)}; the first layer where it appears"
            return [Verdict(CHECKS["not finite"], path, (), np.nan, note)]
    return []


def _alike(path: str, layer: HeadNumbers) -> list[Verdict]:
    check, apart = CHECKS["heads alike"], np.asarray(layer.divergence, np.float64)
    groups = measures.alike(apart, check.threshold)
    return [
        Verdict(check, path, tuple(group), float(apart[np.ix_(group, group)].max()))
        for group in groups
    ]
