"""One attention problem, checked at the door and described for the backends."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.functional.dropout import Dropout
from attn_jax.functional.mask import Axes, Mask
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.functional.tiles import Positions, Range, Tile, whole
from attn_jax.functional.value import Array, Value, raw


class Problem(Value):
    """Queries, keys and values with the rule that joins them; made by :func:`describe`.

    lse: whether the log-sum-exp is asked for, too.
    """

    q: Array
    k: Any
    v: Array | None
    rule: Rule
    positions: Positions
    dropout: Dropout | None
    lse: bool = False

    @property
    def axes(self) -> Axes:
        """Batch axes, query heads, queries and keys."""
        *batch, t, h, _ = self.q.shape
        return Axes(tuple(batch), h, t, self.k.shape[-3])

    @property
    def groups(self) -> int:
        """g, the number of key heads."""
        return self.k.shape[-2]

    @property
    def tile(self) -> Tile:
        """The whole score matrix."""
        return whole(self.axes.t, self.axes.s, self.positions)


def describe(
    q: Array,
    k: Array | PreparedKeys,
    v: Array | None,
    rule: Rule,
    positions: Positions | str | None = None,
    dropout: Dropout | None = None,
) -> Problem:
    """Checks shapes, dtypes and the rule's fit; raises ValueError or TypeError naming the axes."""
    if not isinstance(rule, Rule):
        hint = f": Rule(mask={rule!r})" if isinstance(rule, Mask) else ""
        raise TypeError(f"rule must be an attn_jax.Rule, got {type(rule).__name__}{hint}")
    q, k, v, rule, positions = raw((q, k, v, rule, positions))
    q, k = _array("q", q), _array("k", k)
    v = None if v is None else _array("v", v)
    *batch, t, h, d = q.shape
    s, g = k.shape[-3:-1]
    axes = Axes(tuple(batch), h, t, s)
    if k.shape[:-3] != axes.batch:
        raise ValueError(f"expected q and k to share *b: q has {axes.batch}, k has {k.shape[:-3]}")
    if g == 0 or h % g:
        raise ValueError(
            f"the key heads g must divide the query heads h: q has {h} heads, k has {g}"
        )
    if v is not None and v.shape[:-1] != k.shape[:-1]:
        for axis, a, b in zip(("*b", "s", "g"), _axes_of(k), _axes_of(v), strict=True):
            if a != b:
                raise ValueError(f"expected k and v to share {axis}: k has {a}, v has {b}")
    if isinstance(k, PreparedKeys) and k.score is not type(rule.score):
        raise ValueError(
            f"these keys were prepared by scores.{k.score.__name__}, the rule scores with "
            f"{rule.score!r}: prepare them with this rule, rule.prepare(keys)"
        )
    rule.score.check(d, k.shape[-1])
    rule.check(axes)
    if dropout is not None:
        if not isinstance(dropout, Dropout):
            raise TypeError(f"dropout must be Dropout(rate, rng), got {type(dropout).__name__}")
        dropout.check(axes.batch)
        dropout = dropout if dropout.rate else None
    return Problem(q, k, v, rule, place(positions, axes, rule.reads_positions), dropout)


def place(positions: Positions | str | None, axes: Axes, needed: bool = True) -> Positions:
    """Positions of queries and keys from what the caller said of them.

    Raises:
      ValueError: t ≠ s, the rule reads positions and none were given; or their shapes do not fit.
    """
    t, s = axes.t, axes.s
    if positions is None:
        if needed and t != s:
            raise ValueError(
                f"the rule reads positions, and t = {t} queries differ from s = {s} keys: say "
                'positions="end" (the last query stands at the last key, as in decoding), "start" '
                "(the first at the first), or Positions(q, k)"
            )
        positions = "start"
    if isinstance(positions, str):
        return Positions.aligned(positions, t, s)
    if not isinstance(positions, Positions):
        raise TypeError(
            f'positions must be "start", "end" or Positions(q, k), got {type(positions).__name__}'
        )
    for name, given, size in (("q", positions.q, t), ("k", positions.k, s)):
        if isinstance(given, Range):
            fits = given.size == size
        else:
            if not jnp.issubdtype(jnp.result_type(given), jnp.integer):
                raise TypeError(f"Positions({name}) must be integers, got {jnp.result_type(given)}")
            fits = jnp.shape(given) in ((size,), (*axes.batch, size))
        if not fits:
            axis = "t" if name == "q" else "s"
            raise ValueError(
                f"Positions({name}) must be {axis} = ({size},) or *b {axis} = "
                f"{(*axes.batch, size)}, got shape {jnp.shape(given)}"
            )
    return positions


def _array(name: str, x: Any) -> Any:
    """The queries, keys or values as a JAX array (prepared keys as they are), checked."""
    layout = {"q": "*b t h d", "k": "*b s g d", "v": "*b s g e"}[name]
    if isinstance(x, PreparedKeys) and name == "k":
        if not jax.tree.leaves(x.keys):
            raise ValueError("the prepared keys hold no array")
    elif not isinstance(x, np.ndarray | jax.Array):
        raise TypeError(f"{name} must be an array {layout}, got {type(x).__name__}")
    else:
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(f"{name} must be of floating point, got {x.dtype}")
        x = jnp.asarray(x)
    if x.ndim < 3:
        raise ValueError(f"{name} must be {layout}, with at least 3 axes; got shape {x.shape}")
    if name != "v" and x.shape[-1] == 0:
        raise ValueError(f"{name} must be {layout} with a depth d of at least 1; got {x.shape}")
    return x


def _axes_of(x: Any) -> tuple[Any, int, int]:
    return x.shape[:-3], x.shape[-3], x.shape[-2]
