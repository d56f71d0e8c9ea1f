"""A wrong mask: the loss looks too good, and ``diagnostics.paths.causal_leak`` says why, untrained.

Random tokens cannot be foreseen: no honest model's loss on new ones is below log(vocabulary). A model
whose second layer has a wrong mask gets below it, since it sees what it is to predict. The derivative
of every output in every input shows that before the first step, in any model that is a function.
"""

import functools
from typing import Any

import jax
import numpy as np
import optax

from attn_jax import Rule, attend, masks, patterns
from attn_jax.diagnostics.paths import causal_leak
from experiments.descent import descend, normal
from experiments.pitfalls.config import Config, Leaks
from experiments.results import Row

MASKS = {
    "causal()": masks.causal(),
    "causal(1)": masks.causal(1),
    "~causal()": ~masks.causal(),
    "window(2, 2)": masks.window(2, 2),
    "prefix_lm(4)": patterns.prefix_lm(4),
    "window(2, 2) & causal()": masks.window(2, 2) & masks.causal(),
}
MISTAKES = {
    "causal(1)": "one too far",
    "~causal()": "True taken for hidden",
    "window(2, 2)": "looks both ways",
    "prefix_lm(4)": "its prefix is no target",
}


def begin(section: Leaks, rng: jax.Array) -> dict[str, jax.Array]:
    """Embeddings of tokens and positions, two layers' projections, and those to logits."""
    v, t, m = section.vocabulary, section.tokens, section.width
    rngs = jax.random.split(rng, 4)
    return {
        "tokens": jax.random.normal(rngs[0], (v, m)),
        "positions": jax.random.normal(rngs[1], (t, m)),
        "layers": normal(rngs[2], 2, 4, m, m),
        "logits": normal(rngs[3], m, v),
    }


def model(weights: Any, mask: masks.Mask, x: jax.Array) -> jax.Array:
    """Embeddings `*b t m` to logits `*b t v`: a causal layer, and one whose mask is on trial."""
    x = x + weights["positions"]
    for layer, seen in zip(weights["layers"], (masks.causal(), mask)):
        q, k, v = (x[..., None, :] @ w for w in layer[:3])
        x = x + attend(q, k, v, rule=Rule(mask=seen))[..., 0, :] @ layer[3]
    return x @ weights["logits"]


def learn(section: Leaks, seen: Any, seed: Any) -> tuple[jax.Array, jax.Array]:
    """What leaks before the first step, `t t`; and the loss on new tokens after each.

    Args:
      section: of the config.
      seen: the mask on trial, `t t`, so that one compiled program serves all masks.
      seed: of parameters and tokens.
    """
    mask, rng = masks.explicit(seen), jax.random.key(seed)
    weights = begin(section, jax.random.fold_in(rng, 0))
    x = jax.random.normal(jax.random.fold_in(rng, 1), weights["positions"].shape)
    leak = causal_leak(functools.partial(model, weights, mask), x)

    def loss(weights: Any, i: Any) -> jax.Array:
        shape = section.batch, section.tokens + 1
        tokens = jax.random.randint(jax.random.fold_in(rng, 2 + i), shape, 0, section.vocabulary)
        logits = model(weights, mask, weights["tokens"][tokens[:, :-1]])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    adam = optax.adam(section.rate)
    return leak, descend(loss, weights, adam, section.steps, lambda w, i: loss(w, i + 1))[1]


def leaks(config: Config) -> tuple[list[Row], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Each mask: what it lets through, and the loss that comes of it; and the leaks, `seeds t t`, with
    the losses, `seeds steps`."""
    section = config.leaks
    seen = np.stack([mask.dense(section.tokens, section.tokens) for mask in MASKS.values()])
    by_seed = jax.vmap(functools.partial(learn, section), (None, 0))
    leaking, losses = map(
        np.asarray, jax.jit(jax.vmap(by_seed, (0, None)))(seen, np.array(config.seeds))
    )
    rows: list[Row] = []
    for name, leak, loss in zip(MASKS, leaking, losses):
        i, j = np.nonzero(np.triu((leak > 0).any(0), 1))
        rows.append(
            {
                "mask": name,
                "mistake": MISTAKES.get(name, ""),
                "leaking pairs": len(i),
                "as far ahead as": int((j - i).max(initial=0)),
                "loss": float(loss[:, -(section.steps // 10) - 1 :].mean()),
            }
        )
    return rows, dict(zip(MASKS, zip(leaking, losses)))
