"""A curve and noisy observations of it: the data of kernel regression."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

LONGEST = 5.0  # the interval that x is drawn from begins at 0


class Observations(NamedTuple):
    """Points, in the order of their first coordinate, and what was observed there."""

    x: Any
    """`n d`, float32, in [0, 5]."""

    y: Any
    """`n g e`, float32: of each of g curves, e times."""


def curve(x: ArrayLike, speeds: Sequence[float] = (1.0,)) -> np.ndarray:
    r"""The curve without noise, :math:`f_r(x) = \sum_c f(r x_c) / \sqrt{d}`.

    .. math:: f(x) = 2.333 \sin x + x^{0.666}

    Args:
      x: non-negative, `n d`.
      speeds: r, how many times as fast each of g curves runs, `g`.

    Returns:
      `n g`, float64. Dividing by √d keeps its variance the same for every depth.

    Raises:
      ValueError: x is not `n d`, or is negative somewhere.

    >>> curve([[0.0], [1.0]]).round(3)
    array([[0.   ],
           [2.963]])
    """
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or (x < 0).any():
        raise ValueError(
            f"expected non-negative x, n d; got shape {x.shape}, the least {x.min(initial=np.inf)}"
        )
    run = x[:, None, :] * np.asarray(speeds, np.float64)[:, None]
    return (2.333 * np.sin(run) + run**0.666).sum(-1) / np.sqrt(x.shape[1])


def observe(
    points: int,
    *,
    seed: int,
    noise: float = 0.5,
    depth: int = 1,
    speeds: Sequence[float] = (1.0,),
    times: int = 1,
) -> Observations:
    """Uniform points of [0, 5]^d, and the curves there with independent normal noise.

    Args:
      points: n.
      seed: of points and noise; the points are the same whatever the speeds.
      noise: its standard deviation.
      depth: d.
      speeds: of the curves, `g`.
      times: e, how often each is observed at each point.

    Raises:
      ValueError: no point, no dimension, or noise below 0.

    >>> x, y = observe(150, seed=0)
    >>> x.shape, y.shape, bool((np.diff(x[:, 0]) >= 0).all())
    ((150, 1), (150, 1, 1), True)
    """
    if points < 1 or depth < 1 or noise < 0:
        raise ValueError(
            f"expected points and a depth of at least 1, and noise of at least 0; got {points} points "
            f"of depth {depth} with noise {noise}"
        )
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, LONGEST, (points, depth))
    x = x[np.argsort(x[:, 0])]
    y = curve(x, speeds)[..., None] + noise * rng.normal(size=(points, len(speeds), times))
    return Observations(x.astype(np.float32), y.astype(np.float32))
