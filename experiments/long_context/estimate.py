"""How well random features estimate softmax attention, with orthogonal directions and without."""

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax import Rule, attend, features, normalizers, scores
from experiments.long_context.config import Config, Estimate
from experiments.results import Row


def directions(section: Estimate, orthogonal: bool, seed: int) -> jax.Array:
    """Independent draws of as many as are ever asked for, `draws f d`; the first few are a draw, too."""
    rng, most = jax.random.key(seed), max(section.features)
    drawn = (
        features.favor(jax.random.fold_in(rng, i), section.depth, most, orthogonal).directions
        for i in range(section.draws)
    )
    return jnp.stack(list(drawn))


@jax.jit
@jax.vmap
def missed(drawn: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """The norm of what outputs are off, ÷ that of exact ones: the mean over draws `draws f d`."""
    exact, some = attend(q, k, v), features.favor(jax.random.key(0), drawn.shape[-1], 1)

    def one(directions: jax.Array) -> jax.Array:
        score = scores.kernel(some.replace(directions=directions))
        y = attend(q, k, v, rule=Rule(score, normalizer=normalizers.l1()), backend="linear")
        return jnp.linalg.norm(y - exact) / jnp.linalg.norm(exact)

    return jax.vmap(one)(drawn).mean()


def estimate(config: Config) -> tuple[list[Row], dict[tuple[str, float], np.ndarray]]:
    """The error by size and number of features; and of each seed, `seeds features`, by kind and size."""
    section, seeds = config.estimate, config.seeds
    q, k, v = jnp.stack([random_tokens(section, seed) for seed in seeds], 1)
    found = {}
    for name, orthogonal in (("independent", False), ("orthogonal", True)):
        drawn = jnp.stack([directions(section, orthogonal, seed) for seed in seeds])
        for size in section.sizes:
            counted = [missed(drawn[:, :, :f], size * q, size * k, v) for f in section.features]
            found[name, size] = np.stack(counted, -1)
    rows: list[Row] = []
    for size in section.sizes:
        means = (found[name, size].mean(0).tolist() for name in ("independent", "orthogonal"))
        for count, independent, orthogonal in zip(section.features, *means):
            rows.append(
                {
                    "size": size,
                    "features": count,
                    "independent": independent,
                    "orthogonal": orthogonal,
                    "orthogonal ÷ independent": orthogonal / independent,
                }
            )
    return rows, found


def random_tokens(section: Estimate, seed: int) -> jax.Array:
    """Queries, keys and values, `3 n 1 d`, of size 1."""
    return jax.random.normal(jax.random.key(seed), (3, section.tokens, 1, section.depth))
