"""What a run that trains a model over a tokenizer has that is neither data nor learned."""

from typing import Any

import jax
from flax import nnx

from attn_jax.train import Optimizer, State


class System:
    """A model with its tokenizer; the parameters are arguments. A subclass says what it is for.

    Args:
      config: what was asked for, with a seed.
      tokenizer: whose vocabulary the model has.
      model: with its initial parameters, which are kept apart from it.
      optimizer: that trains it.
    """

    def __init__(self, config: Any, tokenizer: Any, model: nnx.Module, optimizer: Optimizer):
        self.config, self.tokenizer, self.optimizer = config, tokenizer, optimizer
        split: Any = nnx.split(model, nnx.Param, ...)
        self._graph, self._initial, self._rest = split

    def model(self, params: Any) -> Any:
        """The model with some parameters in it."""
        return nnx.merge(self._graph, params, self._rest)

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(x.size for x in jax.tree.leaves(self._initial))

    def initial_state(self) -> State:
        """The state before the first step."""
        return State.create(self._initial, self.optimizer, jax.random.key(self.config.seed))
