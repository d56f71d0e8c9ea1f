import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attn_jax.train import optimizers
from attn_jax.train.schedules import constant, linear

PARAMS = {
    "embedding": jnp.ones((4, 3)),
    "norm": {"scale": jnp.ones(3)},
    "out": {"kernel": jnp.full((3, 2), 2.0), "bias": jnp.ones((2, 2))},
}
ALL = [optimizers.adamw, optimizers.adafactor, optimizers.lion]


def test_decay_is_for_matrices_that_are_no_bias_norm_or_embedding():
    chex.assert_trees_all_equal(
        optimizers.decays(PARAMS),
        {
            "embedding": False,
            "norm": {"scale": False},
            "out": {"kernel": True, "bias": False},
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", ALL)
def test_with_no_gradient_only_what_decays_shrinks(make):
    optimizer = make(constant(0.1), decay=0.5)
    zero = jax.tree.map(jnp.zeros_like, PARAMS)
    updates, _ = optimizer.update(zero, optimizer.init(PARAMS), PARAMS)
    moved = jax.tree.map(lambda x: bool(jnp.abs(x).max() > 0), updates)
    chex.assert_trees_all_equal(moved, optimizers.decays(PARAMS))
    np.testing.assert_allclose(updates["out"]["kernel"], -0.1 * 0.5 * 2.0, rtol=1e-6)


def test_adamw_is_adam_word_for_word():
    b1, b2, epsilon, rate = 0.9, 0.98, 1e-9, linear(0.1, 2, 10)
    optimizer = optimizers.adamw(rate, b1=b1, b2=b2, epsilon=epsilon)
    x = {"w": jnp.array([1.0, -2.0])}
    state = optimizer.init(x)
    expected, mean, square = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for n in range(1, 6):
        gradient = np.sin(n + np.arange(2.0))
        updates, state = optimizer.update({"w": jnp.asarray(gradient, jnp.float32)}, state, x)
        x = optax.apply_updates(x, updates)
        mean = b1 * mean + (1 - b1) * gradient
        square = b2 * square + (1 - b2) * gradient**2
        root = np.sqrt(square / (1 - b2**n)) + epsilon
        expected -= float(rate(n - 1)) * mean / (1 - b1**n) / root
        np.testing.assert_allclose(x["w"], expected, rtol=1e-5)
        np.testing.assert_allclose(optimizer.learning_rate(state), rate(n), rtol=1e-6)


@pytest.mark.parametrize("make", ALL)
def test_every_optimizer_finds_the_minimum(make):
    optimizer = make(linear(0.2, 0, 300))
    target = jnp.array([[1.0, -1.0], [0.5, 2.0]])

    @jax.jit
    def step(x, state):
        gradient = jax.grad(lambda x: jnp.sum((x - target) ** 2))(x)
        updates, state = optimizer.update(gradient, state, x)
        return x + updates, state

    x, state = jnp.full((2, 2), 3.0), optimizer.init(jnp.full((2, 2), 3.0))
    for _ in range(300):
        x, state = step(x, state)
    np.testing.assert_allclose(x, target, atol=0.02)


def test_clipping_scales_the_whole_gradient_to_the_norm():
    optimizer = optimizers.Optimizer(
        optimizers.adamw(constant(1.0), clip=1.0).direction, constant(1.0)
    )
    x = {"a": jnp.ones(1), "b": jnp.ones(1)}
    _, state = optimizer.update(
        {"a": jnp.array([3.0]), "b": jnp.array([4.0])}, optimizer.init(x), x
    )
    (mean,) = [value for _, value in optax.tree.get_all_with_path(state, "mu")]
    np.testing.assert_allclose([mean["a"][0], mean["b"][0]], [0.06, 0.08], rtol=1e-6)


def test_a_norm_that_clips_everything_is_refused():
    with pytest.raises(ValueError, match="positive norm"):
        optimizers.adamw(constant(1.0), clip=0.0)


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (optimizers.adamw, {"b1": 1.0}),
        (optimizers.adamw, {"b2": -0.1}),
        (optimizers.adamw, {"epsilon": 0.0}),
        (optimizers.adamw, {"decay": -1.0}),
        (optimizers.lion, {"b1": 2.0}),
        (optimizers.lion, {"b2": float("nan")}),
        (optimizers.adafactor, {"decay": float("nan")}),
        (optimizers.adafactor, {"clip": float("nan")}),
    ],
)
def test_numbers_out_of_their_range_are_refused(make, setting):
    with pytest.raises(ValueError, match="expected"):
        make(constant(1.0), **setting)
