"""Longformer, BigBird and the sparse causal stacks: who sees whom, sizes, memory, caches."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Rule, biases, interop, masks
from attn_jax.decode.cache import Continuation
from attn_jax.functional.tiles import whole
from attn_jax.models.bigbird import BigBird, BigBirdConfig, BlockSparse
from attn_jax.models.linear_transformer import LinearTransformer, LinearTransformerConfig
from attn_jax.models.longformer import Longformer, LongformerConfig
from attn_jax.models.performer import Performer, PerformerConfig
from attn_jax.models.sparse_transformer import SparseTransformer, SparseTransformerConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.modules.watching import capture

BLOCKS = BlockOptions(width=8, hidden=12, heads=2, epsilon=1e-5)
LONG = LongformerConfig(11, 20, 1, 2, BLOCKS, windows=(2, 4))
SPARSE = BigBirdConfig(11, 40, 1, 1, BLOCKS, block=2, random_blocks=1)
IDS = jnp.asarray(np.random.default_rng(0).integers(2, 11, (2, 9)))


@pytest.mark.parametrize("seed", [None, 3])
def test_bigbirds_blocks_see_neighbours_both_ends_and_others_at_random(seed):
    pattern, length, block, drawn = BlockSparse(3, 2, seed), 40, 3, 2
    seen = np.asarray(pattern.rule(length).mask.dense(length, length))
    assert (seen == np.repeat(np.repeat(seen[::3, ::3], 3, 0), 3, 1)[:length, :length]).all()
    blocks = seen[::block, ::block]  # the last block is shorter
    n = len(blocks)
    assert n == 14
    assert blocks[[0, -1]].all()
    assert blocks[:, [0, -1]].all()
    near = abs(np.arange(n)[:, None] - np.arange(n)) <= 1
    assert blocks[near].all()
    others = blocks[1:-1, 1:-1] & ~near[1:-1, 1:-1]
    assert others.sum(-1).max() == (0 if seed is None else drawn)


def test_bigbirds_first_block_counts_for_those_that_are_not_drawn():
    rule = BlockSparse(2, 2).rule(25)
    counts = np.exp(np.broadcast_to(rule.bias.values(whole(25, 25)), (25, 25)))
    i, j = np.arange(25)[:, None], np.arange(25)
    np.testing.assert_allclose(counts, np.where((i >= 2) & (i < 24) & (j < 2), 3, 1), rtol=1e-6)
    assert BlockSparse(2, 2).rule(18).bias is None
    assert repr(BlockSparse(2, 2).rule(18)) == "Rule()"


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"a window of at least 1 for each of 2 layers.*\(2,\)"):
        Longformer(LongformerConfig(11, 20, 1, 2, BLOCKS, windows=(2,)), rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"\(2, 3\) multiply to 6, expected 8 positions"):
        SparseTransformer(SparseTransformerConfig(11, 8, 1, BLOCKS, grid=(2, 3)), rngs=nnx.Rngs(0))
    for config in (LinearTransformerConfig, PerformerConfig):
        with pytest.raises(ValueError, match=r"kind must be sinusoidal.*got 'alibi'"):
            config(kind="alibi")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "count"),
    [
        (Longformer.base, 148_659_456),
        (Longformer.large, 434_600_960),
        (BigBird.base, 127_468_800),
        (SparseTransformer.text, 95_000_000),
        (SparseTransformer.imagenet64, 152_000_000),
    ],
)
def test_a_preset_has_as_many_parameters_as_were_published(make, count):
    """Where only millions were published, to half a million."""
    state = nnx.state(nnx.eval_shape(make), nnx.Param)
    found = sum(x.size for x in jax.tree.leaves(state))
    assert abs(found - count) <= (500_000 if count % 1_000_000 == 0 else 0)


@pytest.mark.slow
def test_global_tokens_see_and_are_seen_and_both_looks_are_watched():
    model = Longformer(LONG, rngs=nnx.Rngs(0))
    is_global = jnp.zeros((2, 9), bool).at[0, 7].set(True)
    (low, high) = jax.jit(lambda ids: model.attention_maps(ids, is_global=is_global))(IDS)
    distance = abs(np.arange(9)[:, None] - np.arange(9))
    for seen, reach in ((low, 1), (high, 2)):
        seen = np.asarray(seen)
        np.testing.assert_allclose(seen.sum(-1), 1, atol=1e-5)
        expected = np.repeat((distance <= reach)[None], 2, 0)
        expected[0, 7] = expected[0, :, 7] = True
        assert ((seen > 0) == expected[:, None]).all()
    _, looks = capture(Longformer.__call__, model, IDS, is_global=is_global)
    assert list(looks) == [
        f"layers.{i}.self_attention{again}" for i in (0, 1) for again in ("", " (2)")
    ]
    first, second = looks["layers.0.self_attention"], looks["layers.0.self_attention (2)"]
    np.testing.assert_allclose(first.weights() + second.weights(), low, atol=1e-6)


@pytest.mark.slow
def test_a_rule_is_replaced_and_the_pattern_stays():
    model = BigBird(SPARSE, rule=Rule(bias=biases.alibi(2)), rngs=nnx.Rngs(0))
    ids = jnp.ones((1, 30), int)
    (seen,) = jax.jit(model.attention_maps)(ids)
    expected = np.asarray(BlockSparse(2, 1, 0).rule(30).mask.dense(30, 30))
    assert ((np.asarray(seen) > 0) == expected).all()
    model.layers[0].self_attention.pattern = None
    assert (jax.jit(lambda ids: model.attention_maps(ids))(ids)[0] > 0).all()


@pytest.mark.slow
def test_a_pattern_that_was_taken_away_is_not_saved(tmp_path):
    config = BigBirdConfig(11, 40, 1, 1, BLOCKS, block=2, random_blocks=1, seed=None)
    model = BigBird(dataclasses.replace(config, head="masked_language_model"), rngs=nnx.Rngs(0))
    model.layers[0].self_attention.pattern = None
    with pytest.raises(ValueError, match=r"layers\.0.*BlockSparse\(block=2"):
        interop.save(model, tmp_path)


CAUSAL = {
    "sparse": lambda: SparseTransformer(
        SparseTransformerConfig(11, 12, 2, BLOCKS, stride=3, summary=1, grid=(3, 4)),
        rngs=nnx.Rngs(0),
    ),
    "linear": lambda: LinearTransformer(
        LinearTransformerConfig(11, 12, 2, BLOCKS), rngs=nnx.Rngs(0)
    ),
    "performer": lambda: Performer(
        PerformerConfig(11, 12, 2, BLOCKS, features=6), rngs=nnx.Rngs(0)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_cached_steps_equal_the_full_pass(kind):
    model = CAUSAL[kind]()
    full = jax.jit(lambda ids: model(ids))(IDS)
    cache = Continuation.start(model, IDS[:, :5], beams=1, length=5)
    step = jax.jit(model.step)
    for t in range(4, 9):
        logits, cache = step(IDS[:, t : t + 1], cache)
        np.testing.assert_allclose(logits[:, 0], full[:, t], atol=1e-4)


@pytest.mark.slow
def test_more_features_estimate_a_softmax_better():
    def error(features):
        config = PerformerConfig(11, 12, 1, BLOCKS, features=features)
        model = Performer(config, rngs=nnx.Rngs(0))
        found = jax.jit(lambda ids: model(ids))(IDS)
        model.layers[0].self_attention.rule = Rule(mask=masks.causal())
        return float(jnp.abs(found - jax.jit(lambda ids: model(ids))(IDS)).max())

    few, many = error(8), error(4096)
    assert many < 0.2 * few


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["longformer", "bigbird"])
def test_memory_grows_with_length_and_not_with_its_square(kind):
    """Of the gradients at 16,384 tokens, where one matrix of scores would take a gibibyte."""
    if kind == "longformer":
        config = LongformerConfig(11, 16_400, 1, 1, BLOCKS, windows=(256,))
        graph, state = nnx.split(Longformer(config, rngs=nnx.Rngs(0)))
    else:
        config = BigBirdConfig(11, 16_400, 1, 1, BLOCKS)
        graph, state = nnx.split(BigBird(config, rngs=nnx.Rngs(0)))

    def used(n):
        def loss(state, ids, is_global):
            given = {"is_global": is_global} if kind == "longformer" else {}
            return nnx.merge(graph, state)(ids, **given).sum()

        ids = jax.ShapeDtypeStruct((1, n), jnp.int32)
        is_global = jax.ShapeDtypeStruct((1, n), bool)
        compiled = jax.jit(jax.grad(loss)).lower(state, ids, is_global).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    half, whole = used(8_192), used(16_384)
    assert whole < 2.3 * half
    assert whole < 2**27
