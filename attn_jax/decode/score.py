"""How probable given targets are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Scores(NamedTuple):
    """Log-probabilities of targets, natural, in float32.

    Shapes:
      per_token: `b t`, 0 at padding.
      total: `b`, the sum over real tokens.
      lengths: `b` int32, how many tokens are real.
    """

    per_token: Array
    total: Array
    lengths: Array

    @property
    def perplexity(self) -> Array:
        """Per token, exp(−total / lengths), for each row, `b`; 1 for a row without tokens."""
        return jnp.exp(-self.total / jnp.maximum(self.lengths, 1))


def score(logits: Array, labels: Array, *, pad: int = 0) -> Scores:
    r"""Scores given targets: :math:`\log P(y) = \sum_t \log \mathrm{softmax}(z_t)_{y_t}`.

    Args:
      logits: `b t v`, any float type; position t predicts `labels[:, t]`.
      labels: `b t` integers, padded with `pad`.
      pad: the id of labels that do not count.

    Returns:
      Scores of each token and of each row.

    Raises:
      ValueError: the shapes do not fit.

    >>> z = jnp.log(jnp.array([[[0.1, 0.2, 0.7], [0.1, 0.8, 0.1]]]))
    >>> found = score(z, jnp.array([[2, 0]]))
    >>> found.lengths.item(), round(found.perplexity.item() * 0.7, 5)
    (1, 1.0)
    """
    if logits.ndim != 3 or logits.shape[:2] != labels.shape:
        raise ValueError(
            f"expected logits b t v over labels b t, got {logits.shape} over {labels.shape}"
        )
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    chosen = jnp.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]
    real = labels != pad
    per_token = jnp.where(real, chosen, 0.0)
    return Scores(per_token, per_token.sum(-1), real.sum(-1, dtype=jnp.int32))
