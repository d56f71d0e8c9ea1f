"""Looking at attention while a model runs; nothing is stored in the model, and nothing changes.

A module asks :func:`look` where it would ask ``attend``. What is asked can then be watched from
outside: :func:`capture` returns it beside what the model returns, :func:`gated` weighs heads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
from flax import nnx

from attn_jax.backends.backend import Backend
from attn_jax.backends.dispatch import attend, attention_weights
from attn_jax.backends.statistics import AttentionStats, attention_stats
from attn_jax.functional.dropout import Dropout
from attn_jax.functional.rule import PreparedKeys, Rule
from attn_jax.functional.tiles import Positions

Array = jax.Array


class Look(NamedTuple):
    """One call of ``attend``: what was asked and what came of it; a pytree."""

    q: Array
    k: Array | PreparedKeys
    v: Array
    rule: Rule
    positions: Positions | str | None
    y: Array
    """`*b t h e`, after dropout if there was any."""

    def weights(self) -> Array:
        """Where each head of each query looked, before dropout: `*b h t s`."""
        return attention_weights(self.q, self.k, rule=self.rule, positions=self.positions)

    def stats(self) -> AttentionStats:
        """What the weights are like, streamed where they would be many; each `*b h t`."""
        return attention_stats(self.q, self.k, rule=self.rule, positions=self.positions)


Watcher = Callable[[nnx.Module, Look], Array]
"""What is called with the module and its look, and returns what the module gets, `*b t h e`."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def look(
    module: nnx.Module,
    q: Array,
    k: Array | PreparedKeys,
    v: Array,
    *,
    rule: Rule,
    positions: Positions | str | None = None,
    dropout: Dropout | None = None,
    backend: Backend | str = "auto",
) -> Array:
    """``attend`` on behalf of a module, seen by who watches; arguments and result are the same."""
    y = attend(q, k, v, rule=rule, positions=positions, dropout=dropout, backend=backend)
    watcher = _watcher.get()
    return y if watcher is None else watcher(module, Look(q, k, v, rule, positions, y))


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """While this is open, every :func:`look` of this thread is handed to the watcher."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def is_watched() -> bool:
    """Whether anyone watches."""
    return _watcher.get() is not None


def capture(
    call: nnx.Module | Callable[..., Any], *inputs: Any, **options: Any
) -> tuple[Any, OrderedDict[str, Look]]:
    """What a model returns, and every look its attention took on the way, first to last.

    The numbers are those of an uncaptured call, bit for bit where both run operation by operation;
    under one ``jax.jit`` the compiler may round the two differently, as any two programs. Attention
    inside ``jax.lax.scan`` or ``jax.checkpoint`` cannot be seen from outside of it.

    Args:
      call: a model, or a function of a model and its inputs, such as ``Transformer.encode``; then the
        model is the first of the inputs.

    Returns:
      ``call(*inputs, **options)``; and looks by the path of their module, as
      "encoder.0.self_attention" (a second look of the same module ends in " (2)"); an OrderedDict,
      since ``jax.jit`` sorts a plain one.

    >>> import jax.numpy as jnp
    >>> from attn_jax.modules import MultiHeadAttention, capture
    >>> attention = MultiHeadAttention(8, 2, rngs=nnx.Rngs(0))
    >>> y, looks = capture(attention, jnp.ones((3, 8)))
    >>> {path: look.weights().shape for path, look in looks.items()}
    {'': (2, 3, 3)}
    """
    model = call if isinstance(call, nnx.Module) else inputs[0]
    paths, looks = module_paths(model), OrderedDict[str, Look]()

    def keep(module: nnx.Module, seen: Look) -> Array:
        path = _distinct(paths[id(module)], looks)
        looks[path] = seen
        return seen.y

    with watched_by(keep):
        return call(*inputs, **options), looks  # type: ignore[operator]


def attention_maps(
    call: nnx.Module | Callable[..., Any], *inputs: Any, **options: Any
) -> tuple[Array, ...]:
    """Where every attention of a model looked, first to last, `*b h t s` each.

    Args:
      call: as for :func:`capture`.

    >>> import jax.numpy as jnp
    >>> from attn_jax.modules import MultiHeadAttention, attention_maps
    >>> attention = MultiHeadAttention(8, 2, rngs=nnx.Rngs(0))
    >>> [w.shape for w in attention_maps(attention, jnp.ones((3, 8)))]
    [(2, 3, 3)]
    """
    return tuple(seen.weights() for seen in capture(call, *inputs, **options)[1].values())


def gated(
    call: Callable[..., Any],
    model: nnx.Module,
    gates: Mapping[str, Array],
    *inputs: Any,
    **options: Any,
) -> Any:
    """What a model returns when the output of each head is multiplied by a number: 0 prunes it.

    Args:
      call: a function of the model and the inputs.
      model: whose heads are weighed.
      gates: for some of the paths of :func:`capture`, `h` or `*b h`; the others keep their heads.

    Raises:
      ValueError: a path at which nothing looked.

    >>> import jax.numpy as jnp
    >>> from attn_jax.modules import MultiHeadAttention, gated
    >>> attention = MultiHeadAttention(8, 2, rngs=nnx.Rngs(0))
    >>> y = gated(MultiHeadAttention.__call__, attention, {"": jnp.zeros(2)}, jnp.ones((3, 8)))
    >>> bool((y == attention.out.bias).all())
    True
    """
    paths, seen = module_paths(model), dict[str, None]()

    def weigh(module: nnx.Module, look: Look) -> Array:
        path = _distinct(paths[id(module)], seen)
        seen[path] = None
        if path not in gates:
            return look.y
        return look.y * jax.numpy.expand_dims(gates[path], (-3, -1)).astype(look.y.dtype)

    with watched_by(weigh):
        result = call(model, *inputs, **options)
    unknown = [path for path in gates if path not in seen]
    if unknown:
        raise ValueError(f"nothing looked at {unknown}; there were looks at {list(seen)}")
    return result


def module_paths(model: nnx.Module) -> dict[int, str]:
    """The path of each module of a model, by its identity: "decoder.0.cross_attention"."""
    return {id(module): ".".join(map(str, path)) for path, module in nnx.iter_modules(model)}


def _distinct(path: str, taken: Mapping[str, Any]) -> str:
    name, times = path, 1
    while name in taken:
        times += 1
        name = f"{path} ({times})"
    return name
