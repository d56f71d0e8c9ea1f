"""The vocabulary of name tables: which published tensor is which parameter, and how it lies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """How a published tensor lies with respect to the parameters made of it.

    Args:
      axes: axis n of a parameter is axis ``axes[n]`` of the tensor; None where they are the same.
      leading: how many axes of length 1 the tensor has in front of those.

    Several parameters lie side by side along their last axis.
    """

    axes: tuple[int, ...] | None = None
    leading: int = 0

    def where(self, part: int, shape: Shape, index: tuple[slice, ...]) -> tuple[slice, ...]:
        """Where in the tensor the entries `index` of the parameter number `part` are."""
        ranges = [s.indices(n)[:2] for s, n in zip(index, shape, strict=True)]
        if part:
            ranges[-1] = (ranges[-1][0] + part * shape[-1], ranges[-1][1] + part * shape[-1])
        ordered = [ranges[self._axes(len(shape)).index(n)] for n in range(len(shape))]
        return tuple(slice(*r) for r in [(0, 1)] * self.leading + ordered)

    def ours(self, tensor: np.ndarray) -> np.ndarray:
        """A tensor, or a piece of it, as the parameter lies."""
        tensor = tensor.reshape(tensor.shape[self.leading :])
        return tensor.transpose(self._axes(tensor.ndim))

    def published(self, parameters: list[np.ndarray]) -> np.ndarray:
        """The tensor made of its parameters."""
        whole = np.concatenate(parameters, axis=-1) if len(parameters) > 1 else parameters[0]
        return whole.transpose(self._inverse(whole.ndim))[(None,) * self.leading]

    def published_shape(self, shape: Shape, parts: int) -> Shape:
        """The shape of the tensor that holds `parts` parameters of one shape."""
        whole = (*shape[:-1], shape[-1] * parts) if shape else shape
        return (1,) * self.leading + tuple(whole[n] for n in self._inverse(len(shape)))

    def _axes(self, ndim: int) -> tuple[int, ...]:
        return tuple(range(ndim)) if self.axes is None else self.axes

    def _inverse(self, ndim: int) -> tuple[int, ...]:
        axes = self._axes(ndim)
        return tuple(axes.index(n) for n in range(ndim))


class Entry(NamedTuple):
    """A line of a name table: a published tensor, and the parameters that it holds.

    In both, ``{i}`` and ``{j}`` stand for the number of a layer.
    """

    published: str
    ours: tuple[str, ...]
    layout: Layout = Layout()


Entries = tuple[Entry, ...]


def tensor(
    published: str, *ours: str, axes: tuple[int, ...] | None = None, leading: int = 0
) -> Entries:
    """A tensor for one parameter, or for several side by side."""
    return (Entry(published, ours, Layout(axes, leading)),)


def linear(published: str, *ours: str) -> Entries:
    """A torch ``Linear``, whose weight is transposed; several of ours share a fused one.

    >>> [entry.published for entry in linear("attention.query", "query")]
    ['attention.query.weight', 'attention.query.bias']
    """
    return (
        Entry(f"{published}.weight", tuple(f"{o}.kernel" for o in ours), Layout((1, 0))),
        Entry(f"{published}.bias", tuple(f"{o}.bias" for o in ours)),
    )


def conv1d(published: str, *ours: str) -> Entries:
    """A ``Conv1D`` of GPT-2: a linear map whose weight lies as ours does."""
    return (
        Entry(f"{published}.weight", tuple(f"{o}.kernel" for o in ours)),
        Entry(f"{published}.bias", tuple(f"{o}.bias" for o in ours)),
    )


def convolution(published: str, ours: str) -> Entries:
    """A torch ``Conv2d``: out, in, height, width to height, width, in, out."""
    return (
        Entry(f"{published}.weight", (f"{ours}.kernel",), Layout((2, 3, 1, 0))),
        Entry(f"{published}.bias", (f"{ours}.bias",)),
    )


def norm(published: str, ours: str) -> Entries:
    """A ``LayerNorm``."""
    return (
        Entry(f"{published}.weight", (f"{ours}.scale",)),
        Entry(f"{published}.bias", (f"{ours}.bias",)),
    )


def embedding(published: str, ours: str) -> Entries:
    """An ``Embedding``, or any other weight that is a table here."""
    return (Entry(f"{published}.weight", (f"{ours}.table",)),)


class Held(NamedTuple):
    """A published tensor by name, the paths of the parameters it holds, and how it lies."""

    name: str
    paths: tuple[str, ...]
    layout: Layout


def expand(entries: Iterable[Entry], parameters: Mapping[str, Any]) -> list[Held]:
    """The lines of a table that a model has parameters for, with the numbers of its layers.

    Args:
      entries: the table.
      parameters: anything by path, ``layers.0.self_attention.query.kernel``.

    Raises:
      ValueError: naming each parameter that the table has no line for.

    >>> expand(linear("h.{i}.out", "layers.{i}.out"), {"layers.3.out.bias": 0})
    [Held(name='h.3.out.bias', paths=('layers.3.out.bias',), layout=Layout(axes=None, leading=0))]
    """
    found: dict[str, Held] = {}
    for entry in entries:
        pattern = re.compile(re.sub(r"\\\{(\w)\\\}", r"(?P<\1>\\d+)", re.escape(entry.ours[0])))
        for match in filter(None, map(pattern.fullmatch, parameters)):
            paths = tuple(path.format(**match.groupdict()) for path in entry.ours)
            name = entry.published.format(**match.groupdict())
            found[name] = Held(name, paths, entry.layout)
    named = {path for held in found.values() for path in held.paths}
    if nameless := sorted(set(parameters) - named):
        raise ValueError(
            f"no published name for the parameters {', '.join(nameless)}: a model that was operated "
            "on cannot be written in the published format"
        )
    return list(found.values())
