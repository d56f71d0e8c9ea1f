"""Every score beside its formula in numpy, with leaves of every shape they may have."""

from typing import Any, NamedTuple

import numpy as np

from attn_jax import features, scores

T, S, H, G, D, C, A = 4, 6, 4, 2, 3, 5, 7


class Case(NamedTuple):
    make: Any  # of the leaves
    leaves: tuple[Any, ...]
    formula: Any  # of q and k `n h d`, one key head for each query head, and the leaves
    k_depth: int = D


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def inner(q, k):
    return np.einsum("thd,shd->hts", q, k)


def square(q, k):
    return np.square(q[:, None] - k[None]).sum(-1).transpose(2, 0, 1)


def column(x):
    """A scalar, or one number per head, against `h t s`."""
    return np.reshape(x, (-1, 1, 1))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(x, 0))


def u(q, k, radius):
    return np.sqrt(square(q, k)) / column(radius)


def elu_plus_one(x):
    return np.where(x > 0, x + 1, np.exp(x))


PER_HEAD = np.array([0.8, 1.1, 1.7, 2.5])

CASES = {
    "dot": Case(scores.dot, (), inner),
    "scaled_dot": Case(scores.scaled_dot, (), lambda q, k: inner(q, k) / np.sqrt(D)),
    "scaled_dot per head": Case(
        scores.scaled_dot, (PER_HEAD,), lambda q, k, a: inner(q, k) * column(a)
    ),
    "bilinear": Case(
        scores.bilinear, (normal(2, D, C),), lambda q, k, w: inner(q @ w, k), k_depth=C
    ),
    "additive": Case(
        scores.additive,
        (normal(3, D, A), normal(4, C, A), normal(5, A)),
        lambda q, k, w_q, w_k, v: (
            np.tanh((q @ w_q)[:, None] + (k @ w_k)[None]) @ v
        ).transpose(2, 0, 1),
        k_depth=C,
    ),
    "cosine per head": Case(
        scores.cosine, (PER_HEAD,), lambda q, k, a: inner(unit(q), unit(k)) / column(a)
    ),
    "l2": Case(scores.l2, (PER_HEAD,), lambda q, k, a: -column(a) * square(q, k)),
    "gaussian": Case(scores.gaussian, (1.3,), lambda q, k, a: -square(q, k) / (2 * a**2)),
    "gaussian per head": Case(
        scores.gaussian, (PER_HEAD,), lambda q, k, a: -square(q, k) / (2 * column(a) ** 2)
    ),
    "laplace": Case(scores.laplace, (PER_HEAD,), lambda q, k, a: -u(q, k, a)),
    "boxcar": Case(
        scores.boxcar, (PER_HEAD,), lambda q, k, a: np.where(u(q, k, a) <= 1, 0, -np.inf)
    ),
    "triangular": Case(scores.triangular, (PER_HEAD,), lambda q, k, a: log(1 - u(q, k, a))),
    "epanechnikov": Case(
        scores.epanechnikov, (PER_HEAD,), lambda q, k, a: log(1 - u(q, k, a) ** 2)
    ),
    "kernel": Case(
        lambda: scores.kernel(features.elu_plus_one()),
        (),
        lambda q, k: inner(elu_plus_one(q), elu_plus_one(k)),
    ),
    "pairwise": Case(
        lambda w: scores.pairwise(lambda q, k, *, w: -w * abs(q - k).sum(), w=w),
        (0.7,),
        lambda q, k, w: -w * np.abs(q[:, None] - k[None]).sum(-1).transpose(2, 0, 1),
    ),
}  # fmt: skip

COMPACT = ("boxcar", "triangular", "epanechnikov")


def data(case, scale=0.7):
    """Queries `t h d` and keys `s g c`; some pairs inside and some outside of compact supports."""
    return scale * normal(0, T, H, D), scale * normal(1, S, G, case.k_depth)


def expected(case, q, k, *leaves):
    return case.formula(q, np.repeat(k, H // G, axis=1), *(leaves or case.leaves))


def evaluate(score, q, k):
    return score.pair(score.prepare_q(q), score.prepare_k(k))
