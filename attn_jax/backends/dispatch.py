"""The public doors: attend and its kin. Problems are checked here, then handed to a backend."""

from __future__ import annotations

from typing import NamedTuple

from attn_jax.backends.backend import Backend
from attn_jax.backends.blockwise import blockwise
from attn_jax.backends.dense import dense
from attn_jax.backends.fused import fused
from attn_jax.backends.linear import linear
from attn_jax.backends.problem import Problem, describe
from attn_jax.backends.ring import ring
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.normalizers import softmax
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.functional.tiles import Positions
from attn_jax.functional.value import Array

# What "auto" tries, in this order: the first that suits the problem and accepts it, which dense does.
BACKENDS: dict[str, type[Backend]] = {
    "ring": ring,
    "fused": fused,
    "linear": linear,
    "blockwise": blockwise,
    "dense": dense,
}


def attend(
    q: Array,
    k: Array | PreparedKeys,
    v: Array,
    *,
    rule: Rule = Rule(),  # noqa: B008 (a rule is an immutable value)
    positions: Positions | str | None = None,
    dropout: Dropout | None = None,
    backend: Backend | str = "auto",
) -> Array:
    r"""Each query's weighted sum of the values, :math:`y_i = \sum_j w_{ij} v_j`.

    True in the rule's mask means *this query may look at this key*. A query that sees no key gets
    zeros. Query head i uses key head ``i // (h // g)``.

    Args:
      q: queries, `*b t h d`.
      k: keys, `*b s g d`, g dividing h; or what ``rule.prepare(keys)`` made of them.
      v: values, `*b s g e`.
      rule: the mechanism; scaled dot products and a softmax over all keys unless told otherwise.
      positions: where queries and keys stand, when the rule reads positions and t ≠ s: "start",
        "end", or ``Positions(q, k)``.
      dropout: ``Dropout(rate, rng)`` on the weights after normalisation, or None.
      backend: how to evaluate it: "auto", a name, or a value of ``attn_jax.backends``.

    Returns:
      `*b t h e`, of v's dtype; scores and weights are float32 (float64 for float64) inside.

    Raises:
      ValueError, TypeError: shapes or dtypes that do not fit; a backend asked for by name that
        cannot do this, with the reason.

    Reference: Vaswani et al. (2017), section 3.2.

    >>> import jax.numpy as jnp
    >>> q, k, v = jnp.ones((2, 5, 4, 8)), jnp.ones((2, 6, 2, 8)), jnp.ones((2, 6, 2, 3))
    >>> attend(q, k, v).shape
    (2, 5, 4, 3)
    """
    problem = _problem(q, k, v, rule, positions, dropout)
    return choose(backend, problem).attend(problem)


def attend_with_lse(
    q: Array,
    k: Array | PreparedKeys,
    v: Array,
    *,
    rule: Rule = Rule(),  # noqa: B008
    positions: Positions | str | None = None,
    dropout: Dropout | None = None,
    backend: Backend | str = "auto",
) -> tuple[Array, Array]:
    r"""``attend`` and the log of the softmax's denominator, :math:`\ell_i = \ln \sum_j e^{s_{ij}}`.

    Args and raises: as :func:`attend`; the rule's normalizer must be a softmax.

    Returns:
      y: `*b t h e`.
      lse: `*b h t`, natural log, float32 or wider, sinks included, differentiable; −inf for a query
        that sees nothing.

    >>> import jax.numpy as jnp
    >>> x = jnp.zeros((3, 1, 2))
    >>> attend_with_lse(x, x, x)[1].round(4)
    Array([[1.0986, 1.0986, 1.0986]], dtype=float32)
    """
    problem = _problem(q, k, v, rule, positions, dropout)
    if not isinstance(rule.normalizer, softmax):
        raise ValueError(
            f"only a softmax has a log-sum-exp: the rule's normalizer is {rule.normalizer!r}"
        )
    problem = problem.replace(lse=True)
    return choose(backend, problem).attend_with_lse(problem)


def attention_weights(
    q: Array,
    k: Array | PreparedKeys,
    *,
    rule: Rule = Rule(),  # noqa: B008
    positions: Positions | str | None = None,
) -> Array:
    r"""What multiplies the values, before dropout: the w of ``attend``, :math:`y_i = \sum_j w_{ij} v_j`.

    Args and raises: as :func:`attend`. Computed densely: O(t s) memory.

    Returns:
      `*b h t s`, float32 (float64 for float64).

    >>> import jax.numpy as jnp
    >>> x = jnp.zeros((2, 1, 2))
    >>> attention_weights(x, x)
    Array([[[0.5, 0.5],
            [0.5, 0.5]]], dtype=float32)
    """
    return dense().weights(describe(q, k, None, rule, positions))


class Verdict(NamedTuple):
    """What one backend says of a problem."""

    accepts: bool
    reason: str

    def __str__(self) -> str:
        return f"{'accepts' if self.accepts else 'refuses'}: {self.reason}"


class Explanation(dict[str, Verdict]):
    """The verdict of each backend by name; prints as a table."""

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {verdict}" for name, verdict in self.items())


def explain(
    q: Array,
    k: Array | PreparedKeys,
    v: Array,
    *,
    rule: Rule = Rule(),  # noqa: B008
    positions: Positions | str | None = None,
    dropout: Dropout | None = None,
) -> Explanation:
    """What each backend would do with a problem: accept it, and at what cost, or refuse it, and why.

    Args and raises: as :func:`attend`.

    >>> import jax.numpy as jnp
    >>> x = jnp.zeros((6, 1, 2))
    >>> print(explain(x, x, x))
    ring       refuses: there is no mesh with an axis 'context' here: ...
    fused      accepts: jax.nn: all 6 × 6 scores of each head in memory
    linear     refuses: it needs a score that is a product of features, scores.kernel, and normalizers.l1
    blockwise  accepts: visits 1 of 1 tiles of 6 × 6, 1 unmasked
    dense      accepts: all 6 × 6 scores of each head in memory
    """
    problem = _problem(q, k, v, rule, positions, dropout)
    verdicts = {}
    for name, make in BACKENDS.items():
        backend = make()
        refusal = backend.refuses(problem)
        verdicts[name] = Verdict(refusal is None, refusal or backend.cost(problem))
    return Explanation(verdicts)


def _problem(
    q: Array,
    k: Array | PreparedKeys,
    v: Array,
    rule: Rule,
    positions: Positions | str | None,
    dropout: Dropout | None,
) -> Problem:
    if v is None:
        raise TypeError("v must be an array *b s g e, got NoneType")
    return describe(q, k, v, rule, positions, dropout)


def choose(backend: Backend | str, problem: Problem) -> Backend:
    """The backend asked for, if it accepts the problem; for "auto" the first that suits it."""
    if backend == "auto":
        every = (make() for make in BACKENDS.values())
        return next(b for b in every if b.suits(problem) and not b.refuses(problem))
    if isinstance(backend, str):
        if backend not in BACKENDS:
            known = ", ".join(["auto", *BACKENDS])
            raise ValueError(f"unknown backend {backend!r}: expected one of {known}")
        backend = BACKENDS[backend]()
    if not isinstance(backend, Backend):
        hint = f" (call it: {backend.__name__}())" if isinstance(backend, type) else ""
        raise TypeError(f"backend must be a name or a backend, got {type(backend).__name__}{hint}")
    refusal = backend.refuses(problem)
    if refusal is not None:
        raise ValueError(f"the {backend.name} backend refuses: {refusal}")
    return backend
