"""Six ways to say where a token stands: what they are to a permutation, and beyond where they trained.

Attention itself does not know: permute its tokens, and its outputs are permuted. So positions are
added to embeddings, turned into queries and keys, or put into scores as a bias by distance. Trained on
pieces of 64 characters, each is then read up to 1,024.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from attn_jax import Rule, masks, positions
from attn_jax.data.documents import python_reference
from attn_jax.data.tokenizer import Tokenizer
from attn_jax.data.windows import joined
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.modules.blocks import BlockOptions, EncoderBlock
from attn_jax.modules.positional import AddedPositions, biased, checked
from attn_jax.train import cosine
from experiments.positions.config import Config, Training
from experiments.results import Row


class Text(NamedTuple):
    """Characters as ids, `n` int32."""

    train: np.ndarray
    heldout: np.ndarray
    vocabulary: int


def read(config: Config) -> Text:
    """The Python language reference, in characters."""
    documents = python_reference(config.heldout)
    tokenizer = Tokenizer.characters(documents.train)
    train, heldout = map(tokenizer.encode_batch, (documents.train, documents.heldout))
    return Text(joined(train), joined(heldout), len(tokenizer))


def shift(k: int, width: int) -> np.ndarray:
    r"""The matrix that moves sinusoids by k: :math:`\mathrm{PE}(p + k) = M_k\, \mathrm{PE}(p)`.

    Each pair of a sine and a cosine of frequency ω is turned by the angle kω, whatever p is:

    .. math:: \begin{pmatrix} \sin\omega(p+k) \\ \cos\omega(p+k) \end{pmatrix} =
              \begin{pmatrix} \cos\omega k & \sin\omega k \\ -\sin\omega k & \cos\omega k \end{pmatrix}
              \begin{pmatrix} \sin\omega p \\ \cos\omega p \end{pmatrix}

    Args:
      k: how far, in positions.
      width: m.

    Returns:
      `m m`, orthogonal.

    Reference: Vaswani et al. (2017), section 3.5.
    """
    sines, cosines = (
        np.asarray(positions.sinusoidal(jnp.arange(k, k + 1), width))[0].reshape(-1, 2).T
    )
    turned = np.zeros((width, width), np.float32)
    even = np.arange(0, width, 2)
    turned[even, even] = turned[even + 1, even + 1] = cosines
    turned[even, even + 1], turned[even + 1, even] = sines, -sines
    return turned


def shifts(config: Config, distances: Sequence[int] = (1, 7, 64, 512)) -> list[Row]:
    """How well one matrix moves the sinusoids of every position up to the longest."""
    width, longest = config.model.width, config.longest
    known = np.asarray(positions.sinusoidal(jnp.arange(longest), width))
    rows: list[Row] = []
    for k in distances:
        moved = np.asarray(positions.sinusoidal(k + jnp.arange(longest), width))
        missed = np.abs(known @ shift(k, width).T - moved).max()
        size = np.abs(moved - known).max()
        rows.append(
            {
                "k": k,
                "largest |PE(p + k) − PE(p)|": float(size),
                "largest |PE(p + k) − M PE(p)|": float(missed),
            }
        )
    return rows


def permuted(config: Config, seed: int = 0, length: int = 24) -> list[Row]:
    """How far a block's outputs are from the permuted ones when its inputs are permuted."""
    rows: list[Row] = []
    for kind in config.kinds:
        rows.append({"positions": kind, "moved": displacement(kind, seed, length)})
    rows.append(
        {"positions": "none, but causal", "moved": displacement("none", seed, length, True)}
    )
    return rows


def displacement(kind: str, seed: int, length: int = 24, causal: bool = False) -> float:
    """The largest of :math:`|f(x_\\pi) - f(x)_\\pi|` over that of :math:`|f(x)|`, f a drawn block."""
    kind, width, heads = checked(kind), 32, 4
    rngs, rng = nnx.Rngs(seed), jax.random.key(seed)
    options = BlockOptions(width, 64, heads, norm="pre", dropout=0.0, rotary=kind == "rotary")
    rule = biased(Rule(), kind, heads, bidirectional=True)
    if kind == "t5":  # whose table begins at zero
        drawn = jax.random.normal(jax.random.fold_in(rng, 1), rule.bias.table.shape)  # type: ignore[union-attr]
        rule.bias.table[...] = drawn  # type: ignore[union-attr]
    if causal:
        rule = rule & masks.causal()
    added, block = (
        AddedPositions(kind, width, length, rngs=rngs),
        EncoderBlock(options, rule=rule, rngs=rngs),
    )
    x = jax.random.normal(jax.random.fold_in(rng, 2), (length, width))
    order = jax.random.permutation(jax.random.fold_in(rng, 3), length)

    def f(x: jax.Array) -> jax.Array:
        return block(added(x, jnp.arange(length)))

    y = f(x)
    return float(jnp.abs(f(x[order]) - y[order]).max() / jnp.abs(y).max())


class Learned(NamedTuple):
    """A model, and the parameters that each seed has come to, stacked."""

    graph: Any
    params: Any
    rest: Any
    losses: jax.Array
    """`seeds steps`, nats per character."""

    def model(self, params: Any) -> GPT:
        """The model with the parameters of one seed."""
        return nnx.merge(self.graph, params, self.rest)


def learn(kind: str, config: Config, text: Text) -> Learned:
    """Trains a model with positions of a kind, for all seeds at once."""
    sizes = config.model.sizes(kind, text.vocabulary, config.train.length)
    graph, _, rest = _split(sizes, 0)
    train = functools.partial(_train, sizes, graph, rest, config.train)
    params, losses = jax.jit(jax.vmap(train, (0, None)))(np.array(config.seeds), text.train)
    return Learned(graph, params, rest, losses)


def _split(sizes: GPTConfig, seed: Any) -> Any:
    return nnx.split(GPT(sizes, rngs=nnx.Rngs(jax.random.key(seed))), nnx.Param, ...)


def _train(
    sizes: GPTConfig, graph: Any, rest: Any, section: Training, seed: Any, tokens: jax.Array
) -> tuple[Any, jax.Array]:
    optimizer = optax.adam(cosine(section.rate, section.steps // 10, section.steps))
    rng, params = jax.random.key(seed), _split(sizes, seed)[1]

    def step(carry: Any, number: jax.Array) -> tuple[Any, jax.Array]:
        params, state = carry
        pieces = _pieces(jax.random.fold_in(rng, number), tokens, section.rows, section.length)
        loss, slopes = jax.value_and_grad(
            lambda params: losses(nnx.merge(graph, params, rest), pieces).mean()
        )(params)
        updates, state = optimizer.update(slopes, state)
        return (optax.apply_updates(params, updates), state), loss

    start = params, optimizer.init(params)
    (params, _), found = jax.lax.scan(step, start, jnp.arange(section.steps))
    return params, found


def _pieces(rng: jax.Array, tokens: Any, rows: int, length: int) -> jax.Array:
    """Random pieces of the text, `b t+1`."""
    starts = jax.random.randint(rng, (rows,), 0, len(tokens) - length)
    return tokens[starts[:, None] + jnp.arange(length + 1)]


def losses(model: GPT, pieces: jax.Array) -> jax.Array:
    """Of what follows each character of `b t+1`, in nats: `b t`."""
    return optax.softmax_cross_entropy_with_integer_labels(model(pieces[:, :-1]), pieces[:, 1:])


def by_range(learned: Learned, text: Text, first: int, end: int) -> np.ndarray:
    """The mean loss of held-out text at places from `first` to `end` of what is read, `seeds`.

    Pieces overlap so that every character of the text is at one of these places once: what differs
    between ranges is how far the model has read, and never the text.

    Raises:
      ValueError: the model has learned fewer positions.
    """
    n = len(text.heldout)
    starts = np.arange(0, n, end - first)
    pieces = text.heldout[(starts[:, None] + np.arange(end + 1)) % n]  # round from its end

    @jax.jit
    @jax.vmap
    def at(params: Any) -> jax.Array:
        model = learned.model(params)
        one = jax.lax.map(lambda piece: losses(model, piece[None])[0, first:], pieces, batch_size=8)
        return one.mean()

    return np.asarray(at(learned.params))


def ranges(config: Config) -> list[tuple[int, int]]:
    """Places from 0 to the length that is trained on, then to twice as far each, to the longest."""
    ends = [config.train.length]
    while ends[-1] < config.longest:
        ends.append(min(2 * ends[-1], config.longest))
    return list(zip([0, *ends], ends))


def compare(config: Config, text: Text) -> tuple[list[Row], dict[str, np.ndarray], dict[str, str]]:
    """The loss of every kind in every range of places, as rows and by kind; and why some have none."""
    rows: list[Row] = []
    lines, refusals = {}, {}
    for kind in config.kinds:
        learned = learn(kind, config, text)
        means: list[float | None] = []
        for first, end in ranges(config):
            try:
                means.append(float(by_range(learned, text, first, end).mean()))
            except ValueError as refusal:
                refusals[kind] = str(refusal)
                means.append(None)
        names = [f"{first}–{end}" for first, end in ranges(config)]
        rows.append({"positions": kind, **dict(zip(names, means))})
        lines[kind] = np.array([np.nan if x is None else x for x in means])
    return rows, lines, refusals
