import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Rule, attend, masks
from attn_jax.functional.positions import rotary, sinusoidal

RNG = np.random.default_rng(0)


def test_sinusoids_are_the_papers():
    positions, width = np.array([[0, 1, 7], [100, 5, 2]]), 6
    expected = np.empty((2, 3, width))
    for pair in range(width // 2):
        angle = positions / 10_000 ** (2 * pair / width)
        expected[..., 2 * pair], expected[..., 2 * pair + 1] = np.sin(angle), np.cos(angle)
    encoded = jax.jit(lambda p: sinusoidal(p, width))(positions)
    assert encoded.dtype == jnp.float32
    np.testing.assert_allclose(encoded, expected, atol=2e-5)


def test_another_base():
    np.testing.assert_allclose(
        sinusoidal(jnp.arange(3), 4, base=4.0)[1, 2:], [np.sin(0.5), np.cos(0.5)], rtol=1e-6
    )


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_turns_pairs_by_their_angle(interleaved):
    x, positions, d = RNG.normal(size=(2, 3, 2, 6)), np.array([0, 5, 11]), 6
    first, second = (
        (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, 3), slice(3, 6))
    )
    pairs = x[..., first] + 1j * x[..., second]
    angle = positions[:, None, None] / 10_000 ** (2 * np.arange(d // 2) / d)
    turned = pairs * np.exp(1j * angle)
    y = rotary(jnp.asarray(x, jnp.float32), positions, interleaved=interleaved)
    np.testing.assert_allclose(y[..., first], turned.real, atol=1e-5)
    np.testing.assert_allclose(y[..., second], turned.imag, atol=1e-5)


def test_rotated_inner_products_see_distance_alone():
    q, k = jnp.asarray(RNG.normal(size=(2, 1, 1, 8)), jnp.float32)

    @jax.jit
    def product(i, j):
        return (rotary(q, jnp.stack([i])) * rotary(k, jnp.stack([j]))).sum()

    for shift in (1, 50, 1000):
        np.testing.assert_allclose(product(3 + shift, 1 + shift), product(3, 1), rtol=1e-3)
    np.testing.assert_allclose(product(0, 0), (q * k).sum(), rtol=1e-6)


def test_rotation_keeps_lengths_and_dtypes():
    x = jnp.asarray(RNG.normal(size=(4, 2, 8)), jnp.float32)
    turn = jax.jit(lambda x: rotary(x, jnp.arange(4) * 1000))
    turned, half = turn(x), turn(x.astype(jnp.bfloat16))
    np.testing.assert_allclose(np.square(turned).sum(-1), np.square(x).sum(-1), rtol=1e-5)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half.astype(np.float32), turned, atol=0.05)  # phases are float32


def test_positions_of_each_row():
    x = jnp.asarray(RNG.normal(size=(2, 3, 1, 4)), jnp.float32)
    positions = np.array([[0, 1, 2], [7, 3, 5]])
    rows, batch = jax.jit(lambda x, p: (jax.vmap(rotary)(x, p), rotary(x, p)))(x, positions)
    np.testing.assert_allclose(batch, rows, atol=1e-6)


def test_one_rotated_token_is_decoded_as_in_the_whole():
    q, k, v = jnp.asarray(RNG.normal(size=(3, 6, 2, 4)), jnp.float32)
    rule = Rule(mask=masks.causal())

    @jax.jit
    def ways(q, k, v):
        whole = attend(rotary(q, jnp.arange(6)), rotary(k, jnp.arange(6)), v, rule=rule)
        q, k = rotary(q[4:5], jnp.array([4])), rotary(k[:5], jnp.arange(5))
        return whole[4], attend(q, k, v[:5], rule=rule, positions="end")[0]

    np.testing.assert_allclose(*ways(q, k, v), rtol=1e-4, atol=1e-5)


X = jnp.ones((2, 3, 1, 4))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sinusoidal(jnp.arange(3), 5), "sinusoidal positions need an even width, got 5"),
        (lambda: rotary(X[..., :3], jnp.arange(3)), "need an even depth d, got 3"),
        (lambda: rotary(X, jnp.arange(2)), r"t = \(3,\) or \*b t = \(2, 3\), got \(2,\)"),
        (lambda: rotary(X, jnp.zeros((3, 3))), r"t = \(3,\) or \*b t = \(2, 3\), got \(3, 3\)"),
        (
            lambda: rotary(X[0, 0], jnp.arange(3)),
            r"rotary needs x of \*b t h d, got shape \(1, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
