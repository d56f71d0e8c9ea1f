"""What every search is given, and what it finds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

Step = Callable[[Array, Any], tuple[Array, Any]]


@dataclass(frozen=True)
class Specials:
    """The ids that are not words: padding, the token that starts, and the token that ends."""

    pad: int = 0
    bos: int = 1
    eos: int = 2

    @property
    def never(self) -> tuple[int, ...]:
        """What no hypothesis holds: padding and start, where they are not the end's id as well."""
        return tuple({self.pad, self.bos} - {self.eos})


SPECIALS = Specials()


class Hypotheses(NamedTuple):
    """What a search found: n hypotheses for each of b rows, best first.

    Shapes:
      tokens: `b n length` int32, the end token included, padding after it; without the start token.
      lengths: `b n` int32, the end token counted; 0 where a row had fewer than n hypotheses.
      log_probabilities: `b n` float32, natural, the model's for the whole sequence.
      scores: `b n` float32, what the hypotheses were ranked by.
    """

    tokens: Array
    lengths: Array
    log_probabilities: Array
    scores: Array


def checked_limits(limits: Array, length: int) -> Array:
    """Each row's limit, brought into 1..length."""
    limits = jnp.asarray(limits)
    if limits.ndim != 1 or not jnp.issubdtype(limits.dtype, jnp.integer):
        given = f"{limits.dtype} of shape {limits.shape}"
        raise ValueError(f"expected limits to be one integer for each row, `b`; got {given}")
    if length < 1:
        raise ValueError(f"expected length >= 1, for the end token at least; got {length}")
    return jnp.clip(limits, 1, length).astype(jnp.int32)


def first_tokens(first: Array | None, shape: tuple[int, int], specials: Specials) -> Array:
    """What is fed first, `b k`: one token for each row, `b`, or the start token."""
    if first is None:
        return jnp.full(shape, specials.bos, jnp.int32)
    if first.shape != shape[:1] or not jnp.issubdtype(first.dtype, jnp.integer):
        given = f"{first.dtype} of shape {first.shape}"
        raise ValueError(f"expected first to be one integer for each row, {shape[:1]}; got {given}")
    return jnp.broadcast_to(first.astype(jnp.int32)[:, None], shape)


def checked_step(stepped: tuple[Array, Any], tokens: Array) -> tuple[Array, Any]:
    """What `step(tokens, cache)` gave, its shape checked and its logits in float32."""
    logits, cache = stepped
    if logits.ndim != 3 or logits.shape[:2] != tokens.shape:
        b, k = tokens.shape
        raise ValueError(f"expected step to return logits b k v = {b} {k} v, got {logits.shape}")
    return logits.astype(jnp.float32), cache


def without(logits: Array, *ids: int) -> Array:
    """The logits with some tokens made impossible."""
    vocabulary = jnp.arange(logits.shape[-1])
    banned = jnp.any(vocabulary[:, None] == jnp.array(ids), axis=-1)
    return jnp.where(banned, -jnp.inf, logits)


def take(values: Array, indices: Array) -> Array:
    """`values[i, indices[i]]` for each row i, whatever follows the second axis."""
    return jax.vmap(lambda row, chosen: row[chosen])(values, indices)
