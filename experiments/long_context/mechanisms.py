"""The mechanisms compared, each a rule and the backend that it is made for."""

from typing import NamedTuple

import jax
import numpy as np

from attn_jax import Rule, features, masks, normalizers, patterns, scores


class Mechanism(NamedTuple):
    """A rule, and how it is evaluated."""

    rule: Rule
    backend: str


def mechanisms(n: int, window: int, depth: int, directions: int) -> dict[str, Mechanism]:
    """Eight ways for n tokens to look at each other, by name.

    Args:
      n: tokens.
      window: how far a token sees to each side; also the size of BigBird's blocks, and the stride.
      depth: d of queries and keys.
      directions: how many features the Performer has.
    """
    first = np.arange(n) == 0
    performer = features.favor(jax.random.key(0), depth, directions)
    return {
        "dense": Mechanism(Rule(), "dense"),
        "blockwise": Mechanism(Rule(), "blockwise"),
        "local window": Mechanism(Rule(mask=masks.window(window, window)), "blockwise"),
        "Longformer": Mechanism(Rule(mask=patterns.longformer(2 * window, first)), "blockwise"),
        "BigBird": Mechanism(Rule(mask=patterns.bigbird(window, 3, 1, 2)), "blockwise"),
        "strided": Mechanism(Rule(mask=patterns.strided(window)), "blockwise"),
        "Linear Transformer": Mechanism(
            Rule(scores.kernel(features.elu_plus_one()), normalizer=normalizers.l1()), "linear"
        ),
        "Performer": Mechanism(
            Rule(scores.kernel(performer), normalizer=normalizers.l1()), "linear"
        ),
    }
