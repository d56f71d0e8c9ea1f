"""A language model small enough to train in a test."""

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax import train

VOCABULARY, WIDTH, EXAMPLES, LENGTH = 13, 8, 24, 6
PEAK = 0.05


def parameters(seed=0):
    embed, out = jax.random.split(jax.random.key(seed))
    return {
        "embedding": jax.random.normal(embed, (VOCABULARY, WIDTH)),
        "out": {
            "kernel": 0.3 * jax.random.normal(out, (WIDTH, VOCABULARY)),
            "bias": jnp.zeros(VOCABULARY),
        },
    }


def logits(params, batch, rngs, rate=0.3):
    hidden = jnp.tanh(params["embedding"][batch["inputs"]])
    if rngs is not None:
        kept = jax.vmap(lambda rng: jax.random.bernoulli(rng, 1 - rate, hidden.shape[1:]))(rngs)
        hidden = hidden * kept / (1 - rate)
    return hidden @ params["out"]["kernel"] + params["out"]["bias"]


def loss(params, batch, rngs):
    return train.cross_entropy(logits(params, batch, rngs), batch["labels"], smoothing=0.1)


def corpus(seed=1):
    """Sentences of unequal lengths in which each token is followed by its double plus one."""
    random = np.random.default_rng(seed)
    inputs = np.zeros((EXAMPLES, LENGTH), np.int32)
    labels = np.zeros((EXAMPLES, LENGTH), np.int32)
    for row, length in enumerate(random.integers(1, LENGTH + 1, EXAMPLES)):
        tokens = random.integers(1, VOCABULARY, length)
        inputs[row, :length] = tokens
        labels[row, :length] = tokens * 2 % (VOCABULARY - 1) + 1
    return inputs, labels


def batch_of(index):
    inputs, labels = corpus()
    index = np.asarray(index, np.int32)
    return {"inputs": inputs[index], "labels": labels[index], "index": index}


def batches(rows=4, spoil=()):
    """Each epoch in its own order; batches whose number is in `spoil` make the loss NaN."""
    per_epoch = EXAMPLES // rows

    def draw(number):
        epoch, place = divmod(number, per_epoch)
        order = np.random.default_rng(epoch).permutation(EXAMPLES)
        batch = batch_of(order[place * rows : (place + 1) * rows])
        return batch | {"spoil": np.full(rows, np.nan if number in spoil else 0, np.float32)}

    return train.Stream(draw)


def spoilt_loss(params, batch, rngs):
    sums = loss(params, batch, rngs)
    return sums | {"loss": sums["loss"] + jnp.sum(batch["spoil"])}


def optimizer(peak=PEAK):
    return train.adamw(train.inverse_square_root(peak, 4), decay=0.01, clip=1.0)


def state(*, ema=False, seed=0):
    return train.State.create(parameters(), optimizer(), jax.random.key(seed), ema=ema)
