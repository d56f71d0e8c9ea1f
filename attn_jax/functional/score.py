"""What a score is, and the ways of meeting every query with every key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attn_jax.functional.value import Array, Value


class Lift(NamedTuple):
    r"""A score written as an inner product, :math:`s_{ij} = a\, q'_i \cdot k'_j + o_i`.

    Args:
      q: q', `*b t h c`, of any depth c.
      k: k', `*b s g c`.
      scale: a, a Python number.
      offset: o, `*b h t` in the dtype of scores, or None for none; a softmax forgets it, its
        log-sum-exp does not.
    """

    q: Array
    k: Array
    scale: float = 1.0
    offset: Array | None = None


class Score(Value):
    r"""A score of queries and keys; subclass it with a ``pair``, and prepare what can be shared.

    .. math:: s_{ij} = \mathrm{pair}(\mathrm{prepare\_q}(q_i), \mathrm{prepare\_k}(k_j))

    Prepared queries and keys may be any pytree of arrays that keep the axes of what they were made
    from: `*b t h …` and `*b s g …`.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  returns: `*b h t s`.

    >>> class quadratic(Score):
    ...     def pair(self, q, k):
    ...         return inner(q, k) ** 2
    >>> quadratic().pair(jnp.ones((2, 1, 4)), jnp.ones((3, 1, 4)))
    Array([[[16., 16., 16.],
            [16., 16., 16.]]], dtype=float32)
    """

    @property
    def is_logarithm(self) -> bool:
        """Whether scores are the logarithms of kernels, and so at most 0."""
        return False

    def check(self, q_depth: int, k_depth: int) -> None:
        """Raises ValueError where queries and keys of these depths cannot be scored."""
        if q_depth != k_depth:
            raise ValueError(
                f"scores.{self!r} needs queries and keys of one depth d: q has {q_depth}, "
                f"k has {k_depth}"
            )

    def prepare_q(self, q: Array) -> Any:
        """What `pair` needs of the queries, `*b t h …`."""
        return q

    def prepare_k(self, k: Array) -> Any:
        """What `pair` needs of the keys, `*b s g …`."""
        return k

    def pair(self, q: Any, k: Any) -> Array:
        """Scores `*b h t s`, float32 (float64 for float64), of prepared queries and keys."""
        raise NotImplementedError

    def lift(self, q: Any, k: Any) -> Lift | None:
        """Prepared queries and keys whose inner product is this score; None where there is none.

        It lets kernels that know only inner products evaluate the score. `q` and `k` are whole
        sequences, not tiles: a lift may look at all of the keys to centre them.
        """
        return None


def score_dtype(*arrays: Array) -> Any:
    """The dtype scores have: float32, or float64 where an operand is that."""
    return jnp.promote_types(jnp.result_type(*arrays), jnp.float32)


def per_head(x: Array) -> Array:
    """A scalar as it is; one number per head, `h`, to broadcast against scores: `h 1 1`."""
    return x[:, None, None] if jnp.ndim(x) == 1 else x


def per_query_head(name: str, x: Array, q: Array) -> Array:
    """As :func:`per_head`; raises ValueError unless x is a scalar or fits the heads of q `*b t h d`."""
    h = q.shape[-2]
    if jnp.shape(x) not in ((), (h,)):
        raise ValueError(
            f"scores.{name} must be a scalar or one per query head, ({h},); got shape {jnp.shape(x)}"
        )
    return per_head(jnp.asarray(x))


def inner(q: Array, k: Array) -> Array:
    """Inner products of every query and key of the heads that meet: `*b h t s`, float32 or float64."""
    *_, t, h, d = q.shape
    s, g = k.shape[-3:-1]
    dtype = score_dtype(q, k)
    if h == g:
        return jnp.einsum("...thd,...shd->...hts", q, k, preferred_element_type=dtype)
    q = q.reshape(*q.shape[:-3], t, g, h // g, d)
    scores = jnp.einsum("...tgrd,...sgd->...grts", q, k, preferred_element_type=dtype)
    return scores.reshape(*scores.shape[:-4], h, t, s)


def sum_over_depth(term: Callable[..., Array], q: Array, k: Array, *others: Array) -> Array:
    r"""The sum over the depth of a function of single coordinates, :math:`\sum_c f(q_{ic}, k_{jc})`.

    It holds a few coordinates' terms at a time, O(t s) in both directions of differentiation, where
    the array of all terms is `*b h t s d`; and each step works along the keys, which vectorises. A
    single query has no more terms than its keys have coordinates, and they are summed at once.

    Args:
      term: an elementwise function of arrays that broadcast against each other.
      q: `*b t h d`.  k: `*b s g d`.
      others: arrays `d`, from each of which `term` is given a coordinate besides.

    Returns:
      `*b h t s`, float32 (float64 for float64).

    >>> sum_over_depth(lambda a, b: jnp.abs(a - b), jnp.zeros((1, 1, 3)), jnp.ones((2, 1, 3)))
    Array([[[3., 3.]]], dtype=float32)
    """
    *batch, t, h, d = q.shape
    s, g = k.shape[-3:-1]
    dtype = score_dtype(q, k, *others)
    if t == 1:
        one = q.astype(dtype).reshape(*batch, g, h // g, 1, d)
        many = jnp.moveaxis(k.astype(dtype), -3, -2)[..., None, :, :]  # *b g 1 s d
        terms = jax.checkpoint(lambda q, k, *others: term(q, k, *others).sum(-1))
        return terms(one, many, *others).reshape(*batch, h, 1, s)
    q = jnp.moveaxis(q.astype(dtype), (-1, -3), (0, -1)).reshape(d, *batch, g, h // g, t, 1)
    k = jnp.moveaxis(k.astype(dtype), (-1, -3), (0, -1)).reshape(d, *batch, g, 1, 1, s)

    @jax.checkpoint
    def add(total: Array, coordinate: tuple[Array, ...]) -> tuple[Array, None]:
        return total + term(*coordinate), None

    term_of_one = jax.eval_shape(term, q[0], k[0], *(x[0] for x in others))
    zeros = jax.lax.full_like(term_of_one, 0, dtype, (*batch, g, h // g, t, s))
    total, _ = jax.lax.scan(add, zeros, (q, k, *others), unroll=max(1, min(8, d)))
    return total.reshape(*batch, h, t, s)


def repeat_heads(k: Array, h: int) -> Array:
    """Key heads repeated to meet the query heads: `*b s g …` to `*b s h …`."""
    return k if k.shape[-2] == h else jnp.repeat(k, h // k.shape[-2], axis=-2)
