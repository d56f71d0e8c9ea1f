"""SE-ResNet and CBAM against the papers' formulas written in torch: logits, gates, every gradient.

Batch normalisation and its running statistics are torch's own.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.models.cbam import CBAM
from attn_jax.models.resnet import ResNetConfig
from attn_jax.models.senet import SENet
from tests.parity.twin import QUICK, cross_entropy, torch

F = torch.nn.functional
pytestmark = pytest.mark.slow

CASES = {
    "SE, three convolutions a block": (SENet, ResNetConfig((1, 1), True, 4, 3, 7, "large"), 4),
    "CBAM, two convolutions a block": (CBAM, ResNetConfig((2, 1), False, 4, 2, 7, "small"), 2),
}


class Twin:
    """The network as functions of torch tensors that are named as our parameters are."""

    def __init__(self, weights, config, training):
        self.p, self.config, self.training = weights, config, training
        self.gates, self.moved = [], {}

    def __call__(self, images):
        large = self.config.stem == "large"
        x = torch.relu(self.convolution("stem", images, 2 if large else 1))
        x = F.max_pool2d(x, 3, 2, 1) if large else x
        number = 0
        for stage, depth in enumerate(self.config.depths):
            for i in range(depth):
                x = self.block(f"blocks.{number}", x, 2 if stage and not i else 1)
                number += 1
        return x.mean((2, 3)) @ self.p["head.kernel"] + self.p["head.bias"]

    def block(self, name, x, stride):
        strides = [1, stride, 1] if self.config.bottleneck else [stride, 1]
        y = x
        for i, s in enumerate(strides):
            y = self.convolution(f"{name}.branch.{i}", y if i == 0 else torch.relu(y), s)
        if f"{name}.shortcut.convolution.kernel" in self.p:
            x = self.convolution(f"{name}.shortcut", x, stride)
        return torch.relu(x + self.gated(f"{name}.gate", y))

    def convolution(self, name, x, stride):
        kernel = self.p[f"{name}.convolution.kernel"].permute(3, 2, 0, 1)
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        mean, variance, scale, bias = (
            self.p[f"{name}.norm.{part}"] for part in ("mean", "variance", "scale", "bias")
        )
        mean, variance = mean.detach().clone(), variance.detach().clone()
        x = F.batch_norm(x, mean, variance, scale, bias, self.training)
        self.moved |= {f"{name}.norm.mean": mean, f"{name}.norm.variance": variance}
        return x

    def network(self, name, x):
        p = {
            n: self.p[f"{name}.network.{n}"]
            for n in ("down.kernel", "down.bias", "up.kernel", "up.bias")
        }
        hidden = torch.relu(x @ p["down.kernel"] + p["down.bias"])
        return hidden @ p["up.kernel"] + p["up.bias"]

    def gated(self, name, x):
        mean = self.network(name, x.mean((2, 3)))
        if f"{name}.kernel" not in self.p:  # Hu, Shen and Sun (2018), equations 2 to 4
            gate = torch.sigmoid(mean)[:, :, None, None]
            self.gates.append(gate)
            return x * gate
        highest = self.network(name, x.amax((2, 3)))  # Woo et al. (2018), equations 1 to 3
        channels = torch.sigmoid(mean + highest)[:, :, None, None]
        x = x * channels
        both = torch.stack([x.mean(1), x.amax(1)], 1)
        kernel = self.p[f"{name}.kernel"].permute(3, 2, 0, 1)
        places = torch.sigmoid(F.conv2d(both, kernel, padding=kernel.shape[-1] // 2))
        self.gates += [channels, places]
        return x * places


def names(state):
    """The arrays of a state by dotted path."""
    leaves = jax.tree.leaves_with_path(state)
    return {
        jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value"): x
        for path, x in leaves
    }


def redrawn(state, rng):
    """Every number drawn anew: variances positive, kernels large enough to tell inputs apart."""

    def draw(path, x):
        name = jax.tree_util.keystr(path)
        if "variance" in name or "scale" in name:
            return jnp.asarray(rng.uniform(0.5, 1.5, x.shape))
        fan_in = np.prod(x.shape[:-1]) if x.ndim > 1 else 4
        size = 0.7 if "gate" in name else 1.5  # so that no gate is all open or all closed
        return jnp.asarray(rng.normal(0, size / np.sqrt(fan_in), x.shape))

    return jax.tree.map_with_path(draw, state)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    make, config, reduction = CASES[request.param]
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        model = nnx.eval_shape(lambda: make(config, reduction, rngs=nnx.Rngs(0)))
        graph, state = nnx.split(model)
        model = nnx.merge(graph, redrawn(state, rng))
        contrast = np.array([0.3, 1, 3])[:, None, None, None]
        images = contrast * rng.normal(size=(3, 18, 14, config.channels))
        yield model, images, np.array([2, 0, 6])


def twin(model, images, labels, training):
    state = nnx.split(model)[1]
    weights = {n: torch.tensor(np.asarray(x), requires_grad=True) for n, x in names(state).items()}
    network = Twin(weights, model.config, training)
    logits = network(torch.tensor(images).permute(0, 3, 1, 2))
    F.cross_entropy(logits, torch.tensor(labels)).backward()
    gradients = {n: w.grad.numpy() for n, w in weights.items() if w.grad is not None}
    return network, logits.detach().numpy(), gradients


@pytest.mark.parametrize("training", [False, True])
def test_logits_gates_statistics_and_gradients_are_those_of_the_formulas(case, training, record):
    model, images, labels = case
    network, logits, gradients = twin(model, images, labels, training)
    graph, parameters, statistics = nnx.split(model, nnx.Param, nnx.BatchStat)

    def loss(parameters):
        model = nnx.merge(graph, parameters, statistics)
        logits, moved = model.in_training(images) if training else (model(images), statistics)
        outputs = logits, names(moved), () if training else model.gates(images)
        return cross_entropy(logits, labels), outputs

    ours, (our_logits, moved, gates) = jax.jit(
        jax.grad(loss, has_aux=True), compiler_options=QUICK
    )(parameters)
    ours = names(ours)
    assert set(ours) == set(gradients)
    largest = max(np.abs(g).max() for g in gradients.values())

    def same(what, ours, theirs, scale=None):
        scale = np.abs(theirs).max() if scale is None else scale
        difference = float(np.abs(np.asarray(ours) - theirs).max() / scale)
        assert difference <= 1e-9, what
        record(type(model).__name__, what, difference)

    same("logits", our_logits, logits)
    for name, gradient in gradients.items():
        same("gradients", ours[name], gradient, largest)
    for name, value in moved.items():
        same("running statistics", value, network.moved[name].numpy())
    if not training:
        for gate, theirs in zip(jax.tree.leaves(gates), network.gates, strict=True):
            same("gates", np.moveaxis(gate, -1, 1), theirs.detach().numpy())
            assert np.ptp(gate, axis=0).max() > 0.02, "images do not differ in their gates"
