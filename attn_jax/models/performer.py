"""Performer: a causal stack whose softmax is estimated by random features, in linear time."""

from __future__ import annotations

import dataclasses
from typing import Self

import jax
from flax import nnx

from attn_jax.functional import features, scores
from attn_jax.models.linear_transformer import LINEAR, LinearTransformerConfig
from attn_jax.modules.block_options import BlockOptions
from attn_jax.modules.causal_stack import CausalStack

Array = jax.Array


BLOCKS = BlockOptions(512, 1024, 8, norm="pre", activation="gelu", epsilon=1e-5)


@dataclasses.dataclass(frozen=True)
class PerformerConfig(LinearTransformerConfig):
    """The sizes of a Performer; the defaults are those of the paper's models of proteins.

    The other fields are those of :class:`LinearTransformerConfig`.

    Args:
      features: how many random features a query or key of one head has.
      orthogonal: whether their directions are, in blocks of a head's depth.
    """

    vocabulary: int = 32
    positions: int = 1024
    layers: int = 36
    blocks: BlockOptions = BLOCKS
    tied: bool = False
    features: int = 256
    orthogonal: bool = True


class Performer(CausalStack):
    r"""A language model whose attention estimates a softmax with positive random features (FAVOR+).

    .. math:: y_i = \frac{\varphi(q_i) \sum_{j \le i} \varphi(k_j) v_j^\top}
              {\varphi(q_i) \sum_{j \le i} \varphi(k_j)}, \quad
              \mathbb{E}\, \varphi(q) \cdot \varphi(k) = e^{q \cdot k / \sqrt{d}}

    The features of each layer are arrays in its rule, and no parameters.

    Args:
      config: the sizes.
      rngs: where the initial parameters and the features come from.

    Reference: Choromanski et al. (2021), lemma 1 and section 2.4.

    >>> config = PerformerConfig(11, 6, 1, BlockOptions(width=8, hidden=16, heads=2), features=12)
    >>> model = nnx.eval_shape(lambda: Performer(config, rngs=nnx.Rngs(0)))
    >>> model.layers[0].self_attention.rule.score.feature_map.directions.shape
    (12, 4)
    """

    config: PerformerConfig

    def __init__(self, config: PerformerConfig = PerformerConfig(), *, rngs: nnx.Rngs) -> None:
        super().__init__(config, rule=LINEAR, rngs=rngs)
        self.redraw(rngs.params())

    @classmethod
    def protein(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """For proteins of 1,024 amino acids (figure 6; appendices A.3 and C.1).

        The paper prints no size of the vocabulary, here room for 25 amino acids and special tokens,
        and no number of parameters.
        """
        return cls(rngs=rngs or nnx.Rngs(0))

    def redraw(self, rng: Array) -> None:
        """Draws the features of every layer anew, as is done now and then while it is trained."""
        for i, layer in enumerate(self.layers):
            attention = layer.self_attention
            draw = features.favor(
                jax.random.fold_in(rng, i),
                attention.depth,
                self.config.features,
                self.config.orthogonal,
            )
            attention.rule = attention.rule.replace(score=scores.kernel(draw))
