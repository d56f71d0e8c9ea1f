"""Linear Transformer: a causal stack whose attention is a sum that each position adds to."""

from __future__ import annotations

import dataclasses
from typing import Self

from flax import nnx

from attn_jax.functional import features, normalizers, scores
from attn_jax.functional.rule import Rule
from attn_jax.modules.block_options import BlockOptions
from attn_jax.modules.causal_stack import CausalStack, StackConfig

LINEAR = Rule(scores.kernel(features.elu_plus_one()), normalizer=normalizers.l1())


@dataclasses.dataclass(frozen=True)
class LinearTransformerConfig(StackConfig):
    """The sizes of a Linear Transformer; the defaults are the published ones for MNIST.

    The other fields are those of :class:`attn_jax.modules.causal_stack.StackConfig`.

    Raises:
      ValueError: positions of a kind that is a bias.
    """

    vocabulary: int = 256
    positions: int = 784
    layers: int = 8
    blocks: BlockOptions = dataclasses.field(
        default_factory=lambda: BlockOptions(256, 1024, 8, activation="gelu", epsilon=1e-5)
    )
    tied: bool = False

    def __post_init__(self) -> None:
        if self.kind in ("alibi", "t5"):
            raise ValueError(
                "sums of products of features leave no place for a bias of single pairs: kind must be "
                f"sinusoidal, learned, rotary or none, got {self.kind!r}"
            )


class LinearTransformer(CausalStack):
    r"""A language model whose attention takes time linear in length.

    .. math:: y_i = \frac{\varphi(q_i) \sum_{j \le i} \varphi(k_j) v_j^\top}
              {\varphi(q_i) \sum_{j \le i} \varphi(k_j)}, \quad \varphi(x) = \mathrm{elu}(x) + 1

    Args:
      config: the sizes.
      rule: the mechanism of all attention; a causal mask joins it.
      rngs: where the initial parameters come from.

    Reference: Katharopoulos et al. (2020), equations 7 to 12.

    >>> config = LinearTransformerConfig(11, 6, 1, BlockOptions(width=8, hidden=16, heads=2))
    >>> model = nnx.eval_shape(lambda: LinearTransformer(config, rngs=nnx.Rngs(0)))
    >>> model.layers[0].self_attention.rule
    Rule(score=kernel(elu_plus_one()), mask=causal(), normalizer=l1())
    """

    def __init__(
        self,
        config: LinearTransformerConfig = LinearTransformerConfig(),
        *,
        rule: Rule = LINEAR,
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(config, rule=rule, rngs=rngs)

    @classmethod
    def mnist(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """For images of 28 × 28 in 256 shades (section 4.2.1), with logits in a mixture's place.

        The paper prints no number of parameters.
        """
        return cls(rngs=rngs or nnx.Rngs(0))

    @classmethod
    def cifar10(cls, *, rngs: nnx.Rngs | None = None) -> Self:
        """For images of 32 × 32 in three colours of 256 shades (section 4.2.2), likewise."""
        config = LinearTransformerConfig(positions=3072, layers=16)
        return cls(config, rngs=rngs or nnx.Rngs(0))
