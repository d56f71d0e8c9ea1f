"""Sparse, Linear and Performer stacks are what their papers' formulas, written in torch, give."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.models.linear_transformer import LinearTransformer, LinearTransformerConfig
from attn_jax.models.performer import Performer, PerformerConfig
from attn_jax.models.sparse_transformer import SparseTransformer, SparseTransformerConfig
from attn_jax.modules.blocks import BlockOptions
from tests.parity.twin import QUICK, compare, torch

pytestmark = pytest.mark.slow

N, HEADS = 11, 4
IDS = np.random.default_rng(0).integers(0, 13, (2, N))
PRE = BlockOptions(16, 24, HEADS, norm="pre", activation="gelu_sigmoid", epsilon=1e-5)
POST = BlockOptions(16, 24, HEADS, activation="relu", epsilon=1e-3)


def sees(config, layer, head, i):
    """Which positions one sees (Child et al. 2019, section 4.3), written as sets."""
    stride = config.stride
    if config.pattern == "strided":
        near, far = set(range(i - stride, i + 1)), {j for j in range(N) if (i - j) % stride == 0}
    else:
        ends = range(stride - config.summary, stride)
        near = {j for j in range(N) if j // stride == i // stride}
        far = {j for j in range(N) if j % stride in ends}
    half = {"layers": layer % 2, "heads": int(head >= HEADS // 2), "merged": 2}[config.mix]
    return [j for j in sorted((near, far, near | far)[half]) if 0 <= j <= i]


def sparse(config, layer, head, q, k, v):
    """Softmax over the set, for each position by itself."""
    y = torch.zeros_like(v)
    for i in range(N):
        seen = sees(config, layer, head, i)
        if seen:
            scores = torch.einsum("bd,bsd->bs", q[:, i], k[:, seen]) / q.shape[-1] ** 0.5
            y[:, i] = torch.einsum("bs,bsd->bd", scores.softmax(-1), v[:, seen])
    return y


def recurrent(of, q, k, v):
    """The state of a recurrent network (Katharopoulos et al. 2020, equations 16 to 20)."""
    q, k = of(q), of(k)
    state, total, y = 0, 0, []
    for i in range(N):
        state = state + torch.einsum("bf,bd->bfd", k[:, i], v[:, i])
        total = total + k[:, i]
        y.append(torch.einsum("bf,bfd->bd", q[:, i], state) / (q[:, i] * total).sum(-1)[:, None])
    return torch.stack(y, 1)


def elu_plus_one(x):
    return torch.nn.functional.elu(x) + 1


def positive(directions, x):
    """Choromanski et al. (2021), equation 5 with h(x) = exp(−‖x‖²/2), for x / d^(1/4)."""
    x = x / x.shape[-1] ** 0.25
    scale = torch.exp(-(x**2).sum(-1, keepdim=True) / 2) / len(directions) ** 0.5
    return scale * torch.exp(x @ directions.T)


def stack(p, config, positions, attention):
    """Logits of the causal stack with some parameters, by path, and an attention of one head."""
    blocks = config.blocks

    def linear(name, x):
        return x @ p[f"{name}.kernel"] + p[f"{name}.bias"]

    def norm(name, x):
        return torch.nn.functional.layer_norm(
            x, x.shape[-1:], p[f"{name}.scale"], p[f"{name}.bias"], blocks.epsilon
        )

    def residual(name, x, sublayer):
        if blocks.norm == "pre":
            return x + sublayer(norm(name, x))
        return norm(name, x + sublayer(x))

    def look(layer, x):
        name = f"layers.{layer}.self_attention."
        parts = [linear(name + part, x).chunk(HEADS, -1) for part in ("query", "key", "value")]
        heads = [attention(layer, head, *qkv) for head, qkv in enumerate(zip(*parts))]
        return linear(name + "out", torch.cat(heads, -1))

    def feed(layer, x):
        hidden = linear(f"layers.{layer}.feed_forward.inner", x)
        gated = blocks.activation == "gelu_sigmoid"
        hidden = hidden * torch.sigmoid(1.702 * hidden) if gated else torch.relu(hidden)
        return linear(f"layers.{layer}.feed_forward.outer", hidden)

    x = p["embedding.table"][IDS] + positions(p)
    for layer in range(config.layers):
        x = residual(f"layers.{layer}.attention_residual.norm", x, functools.partial(look, layer))
        x = residual(
            f"layers.{layer}.feed_forward_residual.norm", x, functools.partial(feed, layer)
        )
    return norm("norm", x) @ p["output.table"].T


def learned(p):
    return p["positions.table"][:N]


def on_grid(p):
    rows, columns = p["positions.axes.0.table"], p["positions.axes.1.table"]
    return torch.stack([rows[i // 4] + columns[i % 4] for i in range(N)])


def sized(kind, blocks, **options):
    return kind(13, 12, 2, blocks, **options)


grid = functools.partial(sized, SparseTransformerConfig, PRE, grid=(3, 4), summary=2)
CASES = {
    "Sparse Transformer, strided, by layers": grid(pattern="strided", stride=3, mix="layers"),
    "Sparse Transformer, strided, by heads": grid(pattern="strided", stride=4, mix="heads"),
    "Sparse Transformer, fixed, merged": grid(pattern="fixed", stride=4, mix="merged"),
    "Sparse Transformer, fixed, by layers": grid(pattern="fixed", stride=5, mix="layers"),
    "Linear Transformer": sized(LinearTransformerConfig, POST),
    "Performer": sized(PerformerConfig, PRE, features=10),
}
MODELS = {
    "Sparse Transformer": SparseTransformer,
    "Linear Transformer": LinearTransformer,
    "Performer": Performer,
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_what_the_paper_says(case, x64, record):
    name, config = case.split(",")[0], CASES[case]
    graph, state, rest = nnx.split(MODELS[name](config, rngs=nnx.Rngs(0)), nnx.Param, ...)
    rng = np.random.default_rng(len(case))
    state = jax.tree.map(lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape)), state)

    def loss(state):
        logits = nnx.merge(graph, state, rest)(IDS)
        return jnp.sin(logits).sum(), logits

    (_, ours), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=QUICK)(
        state
    )
    flat = {".".join(map(str, path)): np.asarray(x[...]) for path, x in nnx.to_flat_state(state)}
    p = {path: torch.tensor(x, requires_grad=True) for path, x in flat.items()}
    if name == "Sparse Transformer":
        attention, positions = functools.partial(sparse, config), on_grid
    else:
        layers = nnx.merge(graph, state, rest).layers
        scores = [layer.self_attention.rule.score for layer in layers]

        def attention(layer, head, q, k, v):
            of = elu_plus_one
            if name == "Performer":
                directions = torch.tensor(np.asarray(scores[layer].feature_map.directions, float))
                of = functools.partial(positive, directions)
            return recurrent(of, q, k, v)

        positions = learned
    theirs = stack(p, config, positions, attention)
    theirs.sin().sum().backward()
    record(name, "logits", compare(ours, theirs.detach().numpy()))
    largest = max(float(x.grad.abs().max()) for x in p.values())
    for path, x in nnx.to_flat_state(gradients):
        difference = np.abs(np.asarray(x[...]) - p[".".join(map(str, path))].grad.numpy()).max()
        assert difference <= 1e-5 * largest, path
        record(name, "gradients", float(difference / largest))
