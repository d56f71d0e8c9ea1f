import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.functional import gates

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 4, 6))  # b y x c


def network(outputs):
    return gates.Bottleneck(*(RNG.normal(size=s) for s in ((6, 3), (3,), (3, outputs), (outputs,))))


NET, MIXER, KERNEL, BIAS = network(6), network(2), RNG.normal(size=(3, 3, 2, 1)), np.array(0.3)
KERNELS, BIASES = RNG.normal(size=(2, 3, 3, 6, 5)), RNG.normal(size=(2, 5))


def mlp(net, x):
    return np.maximum(x @ net.w_down + net.b_down, 0) @ net.w_up + net.b_up


def sigma(x):
    return 1 / (1 + np.exp(-x))


def convolved(x, kernel):
    """By definition, with zeros beyond the border; `y x c` with `3 3 c o`."""
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    return np.stack([
        [np.einsum("yxc,yxco->o", padded[i : i + 3, j : j + 3], kernel) for j in range(x.shape[1])]
        for i in range(x.shape[0])
    ])  # fmt: skip


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def dynamic(x, net, kernels, biases):
    return gates.dynamic_convolution(x, gates.kernel_attention(x, net, 2.0), kernels, biases)


PI = softmax(mlp(MIXER, X.mean((1, 2))) / 2.0)
FORMULAS = {
    "squeeze_and_excitation": lambda x, net: sigma(mlp(net, x.mean((1, 2))))[:, None, None],
    "cbam_channels": lambda x, net: sigma(mlp(net, x.mean((1, 2))) + mlp(net, x.max((1, 2))))[
        :, None, None
    ],
    "cbam_places": lambda x, kernel, bias: sigma(
        np.stack([convolved(np.stack([y.mean(-1), y.max(-1)], -1), kernel) for y in x]) + bias
    ),
    "dynamic_convolution": lambda x, net, kernels, biases: np.stack([
        convolved(y, np.tensordot(p, kernels, 1)) + p @ biases
        for y, p in zip(x, softmax(mlp(net, x.mean((1, 2))) / 2.0))
    ]),
}  # fmt: skip
CASES = {
    "squeeze_and_excitation": (gates.squeeze_and_excitation, (X, NET)),
    "cbam_channels": (gates.cbam_channels, (X, NET)),
    "cbam_places": (gates.cbam_places, (X, KERNEL, BIAS)),
    "dynamic_convolution": (dynamic, (X, MIXER, KERNELS, BIASES)),
}
every_gate = pytest.mark.parametrize("name", CASES)


@every_gate
@pytest.mark.usefixtures("x64")
def test_a_gate_is_its_formula_and_so_are_its_derivatives(name):
    function, arguments = CASES[name]
    expected = FORMULAS[name](*arguments)
    pull = RNG.normal(size=expected.shape)

    @jax.jit
    def gate_and_slopes(*x):
        gate, pullback = jax.vjp(function, *x)
        return gate, pullback(jnp.asarray(pull))

    gate, slopes = gate_and_slopes(*jax.tree.map(jnp.asarray, arguments))
    np.testing.assert_allclose(gate, expected, rtol=1e-9, atol=1e-12)
    along = jax.tree.map(lambda a: RNG.normal(size=a.shape), arguments)

    def moved(step):
        return (
            FORMULAS[name](*jax.tree.map(lambda a, b: a + step * b, arguments, along)) * pull
        ).sum()

    slope = sum((a * b).sum() for a, b in zip(*map(jax.tree.leaves, (along, slopes)), strict=True))
    np.testing.assert_allclose(slope, (moved(1e-6) - moved(-1e-6)) / 2e-6, rtol=1e-6)


@every_gate
def test_gates_take_any_batch_and_keep_the_dtype(name):
    function, (x, *rest) = CASES[name]
    rest = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), rest)
    x = jnp.asarray(x, jnp.float32)
    alone, many = jax.eval_shape(function, x[0], *rest), jax.eval_shape(function, x[None], *rest)
    assert many.shape == (1, 2, *alone.shape)
    half = jax.eval_shape(function, x.astype(jnp.bfloat16), *rest)
    assert half.dtype == jnp.bfloat16


def test_a_gate_of_one_kernel_is_a_convolution_and_strides():
    x = jnp.asarray(X, jnp.float32)
    kernel = jnp.asarray(KERNELS[:1], jnp.float32)
    y = gates.dynamic_convolution(x, jnp.ones((2, 1)), kernel, stride=2)
    assert y.shape == (2, 3, 2, 5)
    plain = jax.lax.conv_general_dilated(
        x, kernel[0], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(y, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gates.squeeze_and_excitation(X[..., :4], NET), "with c = 6 channels"),
        (lambda: gates.cbam_channels(X[..., :4], NET), "with c = 6 channels"),
        (lambda: gates.kernel_attention(X[0, 0], NET), r"\*b y x c"),
        (lambda: gates.cbam_places(X, KERNEL[..., 0]), "must be n n 2 1"),
        (lambda: gates.dynamic_convolution(X, PI[:1], KERNELS), r"weights \*b k = \(2, 2\)"),
    ],
)
def test_what_does_not_fit_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
