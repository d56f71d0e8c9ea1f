"""Rule: one attention mechanism, as a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from attn_jax.functional.biases import Bias
from attn_jax.functional.mask import Axes, Mask
from attn_jax.functional.masks import everything
from attn_jax.functional.normalizers import Normalizer, l1, softmax
from attn_jax.functional.score import score_dtype
from attn_jax.functional.scores import Score, scaled_dot
from attn_jax.functional.tiles import Tile
from attn_jax.functional.value import Array, Value, raw


class Rule(Value):
    r"""One attention mechanism: score, bias, transform, mask and normalizer, in this order.

    .. math:: y_i = \sum_j w_{ij} v_j, \quad
              w_i = \mathrm{normalizer}_j(\mathrm{mask}(\mathrm{transform}(
              \mathrm{score}(q_i, k_j) + \mathrm{bias}_{ij})))

    By default it is scaled dot-product attention.

    A rule is a pytree: its arrays (bandwidths, tables, slopes, ids, …) can be traced, mapped, sharded
    and, where they are floats, differentiated. Functions in it are static. Rules compare by identity.

    Args:
      score: how well a query and a key match.
      bias: numbers added to the scores, or None.
      transform: ``(s, i, j) -> s`` on scores `*b h t s` and the positions of queries and keys, or
        None.
      mask: which queries may look at which keys.
      normalizer: how the scores of a query become its weights.
      transform_reads_positions: declares that `transform` uses its i and j.

    Raises:
      TypeError: a part of another kind.
      ValueError: ``normalizers.l1`` directly over the logarithm of a kernel.

    Shapes:
      q: `*b t h d`.  k: `*b s g d`.  v: `*b s g e`.  s, w: `*b h t s`.  y: `*b t h e`.

    Raises:
      TypeError: a part is not of its kind.

    >>> from attn_jax.functional import masks
    >>> Rule() & masks.causal()
    Rule(mask=causal())
    """

    score: Score = scaled_dot()
    bias: Bias | None = None
    transform: Callable[[Array, Any, Any], Array] | None = None
    mask: Mask = everything()
    normalizer: Normalizer = softmax()
    transform_reads_positions: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("score", Score), ("mask", Mask), ("normalizer", Normalizer)):
            given = getattr(self, name)
            if not isinstance(given, kind):
                raise TypeError(
                    f"Rule({name}=…) takes a value of attn_jax.{name.rstrip('s')}s"
                    f"{' (call it: ' + given.__name__ + '())' if isinstance(given, type) else ''}"
                    f", got {type(given).__name__}"
                )
        if self.bias is not None and not isinstance(self.bias, Bias):
            raise TypeError(
                f"Rule(bias=…) takes a bias, got {type(self.bias).__name__}: use biases.dense(array)"
            )
        given = self.transform
        if given is not None and (isinstance(given, type) or not callable(given)):
            is_class = isinstance(given, type)
            what = f"a class (call it: {given.__name__}(…))" if is_class else type(given).__name__
            raise TypeError(f"Rule(transform=…) takes a function (s, i, j) -> s, got {what}")
        nothing_between = self.bias is None and self.transform is None
        if self.score.is_logarithm and isinstance(self.normalizer, l1) and nothing_between:
            raise ValueError(
                f"normalizers.l1 takes scores that are not negative, scores.{self.score!r} is the "
                "logarithm of a kernel: normalise it with softmax, whose exponentials are the kernel, "
                "or let transform make it positive"
            )
        super().__post_init__()

    def __and__(self, mask: Mask) -> Rule:
        return self.replace(mask=self.mask & mask)

    @property
    def reads_positions(self) -> bool:
        """Whether any part depends on where queries and keys stand."""
        in_bias = self.bias is not None and self.bias.reads_positions
        return self.mask.reads_positions or in_bias or self.transform_reads_positions

    def check(self, axes: Axes) -> None:
        """Raises ValueError, naming the axes, where a part does not fit the problem."""
        self.mask.check(axes)
        self.normalizer.check(axes.h)
        if self.bias is not None:
            self.bias.check(axes)

    def prepare(self, keys: Array) -> PreparedKeys:
        """What the score needs of the keys, computed once; ``attend`` takes it in place of k.

        Args:
          keys: `*b s g d`.

        >>> k = jnp.ones((5, 1, 4))
        >>> Rule().prepare(k).shape
        (5, 1, 4)
        """
        score = raw(self.score)
        return PreparedKeys(score.prepare_k(keys), keys.shape[-1], type(score))

    def logits(self, q: Any, k: Any, tile: Tile) -> Array:
        """Score, bias and transform on a tile of prepared queries and keys: `*b h t s`, unmasked.

        Their dtype is that of the scores of q and k, whatever that of the rule's own numbers.
        """
        dtype = score_dtype(*jax.tree.leaves((q, k)))
        scores = self.score.pair(q, k).astype(dtype)
        if self.bias is not None:
            scores = scores + self.bias.values(tile).astype(dtype)
        if self.transform is not None:
            scores = jnp.asarray(self.transform(scores, tile.i, tile.j), dtype)
        return scores


class PreparedKeys(Value):
    """Keys that a score has prepared, `*b s g …`; a pytree, to be kept in a cache or a closure."""

    keys: Any
    depth: int
    score: type

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the keys it was made from, `*b s g d`."""
        first = jax.tree.leaves(self.keys)[0]
        return (*first.shape[:-1], self.depth)

    @property
    def ndim(self) -> int:
        """As of the keys it was made from."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of what was prepared."""
        return jnp.result_type(*jax.tree.leaves(self.keys))
