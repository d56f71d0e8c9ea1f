from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.train.losses import cross_entropy


def reference(logits, labels, smoothing):
    """The formula word for word, in float64."""
    z = np.asarray(logits, np.float64)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    real = labels != 0
    target = np.eye(z.shape[-1])[labels] * (1 - smoothing) + smoothing / z.shape[-1]
    loss = -(target * log_p).sum(-1)
    gradient = (np.exp(log_p) - target) * real[..., None]
    return (loss * real).sum(), gradient


@partial(jax.jit, static_argnums=2)
def value_and_gradient(logits, labels, smoothing=0.1):
    return jax.value_and_grad(lambda z: cross_entropy(z, labels, smoothing=smoothing)["loss"])(
        logits
    )


def example(dtype=jnp.float32):
    logits = 3 * jax.random.normal(jax.random.key(0), (3, 5, 11), dtype)
    labels = jnp.array([[1, 4, 10, 2, 0], [3, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    return logits, labels


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_value_and_gradient_are_those_of_the_formula(smoothing, dtype):
    logits, labels = example(dtype)
    value, gradient = value_and_gradient(logits, labels, smoothing)
    expected, expected_gradient = reference(logits, np.asarray(labels), smoothing)
    assert value.dtype == jnp.float32
    assert gradient.dtype == dtype
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    tolerance = 1e-6 if dtype == jnp.float32 else 4e-3
    np.testing.assert_allclose(gradient.astype(jnp.float32), expected_gradient, atol=tolerance)


@pytest.mark.slow
def test_forward_reverse_and_second_derivatives_agree_with_finite_differences():
    logits, labels = example()
    loss = jax.jit(lambda z: cross_entropy(z, labels, smoothing=0.1)["loss"])
    jax.test_util.check_grads(loss, (logits,), order=2, modes=["fwd", "rev"], rtol=2e-2, atol=2e-2)


def test_nll_is_the_loss_without_smoothing():
    logits, labels = example()
    nll = jax.jit(jax.value_and_grad(lambda z: cross_entropy(z, labels, smoothing=0.1)["nll"]))(
        logits
    )
    chex.assert_trees_all_close(nll, value_and_gradient(logits, labels, 0.0), rtol=1e-6)


def test_a_batch_without_padding_is_finite():  # T12
    logits = jnp.zeros((2, 3, 7))
    loss, gradient = value_and_gradient(logits, jnp.full((2, 3), 6))
    np.testing.assert_allclose(loss, 6 * np.log(7), rtol=1e-6)
    assert jnp.isfinite(gradient).all()


def test_padding_counts_for_nothing_and_moves_nothing():
    logits, labels = example()
    sums = jax.jit(cross_entropy)
    short = sums(logits[:2, :4], labels[:2, :4])
    chex.assert_trees_all_close(sums(logits, labels), short, rtol=1e-6)
    _, gradient = value_and_gradient(logits, labels)
    assert not gradient[labels == 0].any()


def test_huge_logits_do_not_overflow():
    logits = jnp.array([[1e4, 0.0, -1e4]])
    loss, gradient = value_and_gradient(logits, jnp.array([2]), 0.0)
    np.testing.assert_allclose(loss, 2e4)
    np.testing.assert_allclose(gradient, [[1, 0, -1]])


def test_counts():
    logits = jnp.array([[[0.0, 2, 1], [0, 1, 2], [5, 0, 0]]])
    sums = cross_entropy(logits, jnp.array([[1, 1, 0]]))
    assert (int(sums["count"]), int(sums["correct"])) == (2, 1)


def test_what_does_not_fit_is_refused():
    logits, labels = example()
    with pytest.raises(ValueError, match="smoothing"):
        cross_entropy(logits, labels, smoothing=1.0)
    with pytest.raises(ValueError, match=r"logits \*b t v"):
        cross_entropy(logits, labels[:, 1:])
    with pytest.raises(TypeError, match="integer labels"):
        cross_entropy(logits, labels.astype(float))
