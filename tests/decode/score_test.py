import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.decode.score import score


def test_a_score_is_the_sum_of_log_softmax_over_real_tokens():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 3, 5)).astype(np.float32)
    labels = np.array([[3, 4, 2], [4, 2, 0]])
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [
        [np.log(p[b, t, labels[b, t]]) * (labels[b, t] != 0) for t in range(3)] for b in (0, 1)
    ]
    found = score(jnp.asarray(logits), jnp.asarray(labels))
    np.testing.assert_allclose(found.per_token, expected, rtol=1e-5)
    np.testing.assert_allclose(found.total, np.sum(expected, -1), rtol=1e-5)
    assert found.lengths.tolist() == [3, 2]
    np.testing.assert_allclose(found.perplexity, np.exp(-found.total / np.array([3, 2])), rtol=1e-6)


def test_padding_and_what_the_model_says_there_do_not_count():
    logits = np.random.default_rng(1).normal(size=(1, 4, 5)).astype(np.float32)
    labels = jnp.array([[3, 2, 0, 0]])
    shorter = score(jnp.asarray(logits[:, :2]), labels[:, :2])
    logits[:, 2:] = np.nan
    longer = score(jnp.asarray(logits), labels)
    np.testing.assert_array_equal(shorter.total, longer.total)
    empty = score(jnp.asarray(logits), jnp.zeros((1, 4), int))
    assert (empty.total.item(), empty.perplexity.item()) == (0, 1)


def test_half_precision_logits_are_scored_in_float32():
    logits = jnp.zeros((1, 1, 1000), jnp.bfloat16)
    found = score(logits, jnp.array([[3]]))
    assert found.total.dtype == jnp.float32
    np.testing.assert_allclose(found.total, -np.log(1000), rtol=1e-6)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match=r"logits b t v over labels b t, got \(2, 3, 5\) over \(2, 4\)"
    ):
        score(jnp.zeros((2, 3, 5)), jnp.zeros((2, 4), int))
