"""ViT, DeiT and Swin without their twins: published sizes, geometry, what a call may not do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Rule, backends, masks
from attn_jax.models.image_gpt import ImageGPT, ImageGPTConfig, nearest
from attn_jax.models.swin import Swin, SwinConfig
from attn_jax.models.vit import DEIT, ViT, ViTConfig
from attn_jax.modules.attention import MultiHeadAttention

SMALL = SwinConfig(2, 1, 5, "class", 8, (2, 2), (2, 2), 3, 2.0, "gelu", 1e-5, 0.6)


def parameters(make):
    return sum(x.size for x in jax.tree.leaves(nnx.state(nnx.eval_shape(make), nnx.Param)))


def slow(make, count):
    return pytest.param(make, count, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("make", "count"),
    [
        slow(ViT.tiny, 5_717_416),  # Touvron et al. (2021) and the code of both papers
        slow(ViT.small, 22_050_664),
        (ViT.base, 86_567_656),
        slow(ViT.large, 304_326_632),
        slow(lambda: ViT.tiny(DEIT), 5_910_800),
        slow(lambda: ViT.small(DEIT), 22_436_432),
        slow(lambda: ViT.base(DEIT), 87_338_192),
        (Swin.tiny, 28_288_354),  # Liu et al. (2021) and their code
        slow(Swin.small, 49_606_258),
        slow(Swin.base, 87_768_224),
    ],
)
def test_presets_have_the_published_number_of_parameters(make, count):
    assert parameters(make) == count


@pytest.mark.parametrize(
    ("make", "count"),
    [
        slow(ImageGPT.small, 76e6),  # Chen et al. (2020), section 3.3
        slow(ImageGPT.medium, 455e6),
        slow(ImageGPT.large, 1.4e9),
    ],
)
def test_presets_have_about_as_many_parameters_as_the_paper_prints(make, count):
    assert parameters(make) == pytest.approx(count, rel=0.03)


def test_an_image_is_its_nearest_colours_row_by_row_after_a_start_token():
    palette = np.random.default_rng(0).uniform(size=(7, 3)).astype(np.float32)
    colours = np.random.default_rng(1).integers(0, 7, (2, 12))
    images = jnp.asarray(palette[colours].reshape(2, 3, 4, 3)) + 1e-3
    np.testing.assert_array_equal(nearest(images, palette), colours)
    model = nnx.eval_shape(lambda: ImageGPT(ImageGPTConfig(8, layers=1), rngs=nnx.Rngs(0)))
    started = model.started(jnp.asarray(colours))
    np.testing.assert_array_equal(started[:, 0], 7)
    np.testing.assert_array_equal(started[:, 1:], colours[:, :-1])


def test_configs_that_make_no_model_are_refused():
    with pytest.raises(ValueError, match="set distilled=True"):
        ViTConfig(head="teacher")
    with pytest.raises(ValueError, match='"class", "teacher" or "pooler", got \'linear\''):
        ViTConfig(head="linear")
    with pytest.raises(ValueError, match='"class" or "pooler"'):
        SwinConfig(head="teacher")
    with pytest.raises(ValueError, match="has no logit"):
        ImageGPTConfig(tied=True)
    with pytest.raises(ValueError, match='"colours" or "class", got \'pixels\''):
        ImageGPTConfig(head="pixels")
    with pytest.raises(ValueError, match=r"got \(2, 2\) and \(3, 6, 12, 24\)"):
        nnx.eval_shape(lambda: Swin(SwinConfig(depths=(2, 2)), rngs=nnx.Rngs(0)))


def compiled(model, method):
    graph, state = nnx.split(model)
    jitted = jax.jit(lambda state, *a, **o: getattr(nnx.merge(graph, state), method)(*a, **o))
    return lambda *arguments, **options: jitted(state, *arguments, **options)


@pytest.fixture(scope="module")
def swin():
    return Swin(SMALL, rngs=nnx.Rngs(0))


@pytest.mark.slow
def test_a_pixel_moves_only_what_its_windows_reach(swin):
    """In the first block its own window; in the second the windows that straddle that one."""
    image = jax.random.normal(jax.random.key(0), (1, 24, 24, 1))  # 12 × 12 patches, windows of 3
    states = compiled(swin, "hidden_states")
    changed = states(image.at[0, 0, 0, 0].add(1.0))[1] != states(image)[1]
    moved = np.argwhere(np.asarray(changed)[0].any(-1))
    assert set(map(tuple, moved)) == {(y, x) for y in range(4) for x in range(4)}


@pytest.mark.slow
def test_maps_sum_to_one_and_never_join_what_a_shift_brought_together(swin):
    maps = compiled(swin, "attention_maps")(jnp.ones((1, 10, 13, 1)))
    assert [m.shape for m in maps] == [(1, 6, 2, 9, 9)] * 2 + [(1, 2, 2, 9, 9)] * 2
    for m in maps:
        np.testing.assert_allclose(m.sum(-1), 1, atol=1e-5)
    corner = maps[1][0, -1, 0]
    assert (corner[0] > 0).sum() == 4  # of the last window, only what was there before the shift


@pytest.mark.slow
def test_windows_are_the_same_on_every_backend_that_takes_them():
    model = Swin(SMALL, rngs=nnx.Rngs(0))
    images = jax.random.normal(jax.random.key(0), (2, 10, 13, 1))
    logits = []
    for backend in ("dense", backends.blockwise(tile=(4, 4)), "auto"):
        for _, module in nnx.iter_modules(model):
            if isinstance(module, MultiHeadAttention):
                module.backend = backend
        logits.append(compiled(model, "__call__")(images))
    np.testing.assert_allclose(logits[1], logits[0], atol=1e-5)
    np.testing.assert_allclose(logits[2], logits[0], atol=1e-5)


@pytest.mark.slow
def test_a_vit_whose_patches_see_only_their_row_keeps_its_parameters():
    config = ViTConfig((6, 8), 2, 1, 5).sized(8, 1, 2)
    model = ViT(config, rngs=nnx.Rngs(0))
    rows = np.repeat(np.arange(3), 4)
    ids = np.concatenate([[3], rows])  # the class token is a row of its own, and sees everyone
    everyone = masks.global_tokens(queries=ids == 3, keys=ids == 3)
    model.layers[0].self_attention.rule = Rule(mask=masks.segments(ids) | everyone)
    image = jax.random.normal(jax.random.key(0), (1, 6, 8, 1))
    states = compiled(model, "hidden_states")
    changed = states(image.at[0, 0, 0, 0].add(1.0))[1] != states(image)[1]
    moved = np.asarray(changed)[0].any(-1)
    assert set(ids[moved]) == {0, 3}


@pytest.mark.slow
def test_an_image_smaller_than_a_window_is_one_window(swin):
    assert compiled(swin, "__call__")(jnp.ones((2, 3, 5, 1))).shape == (2, 5)


@pytest.mark.slow
def test_depth_is_dropped_by_the_example_and_not_by_its_company(swin):
    call = compiled(swin, "__call__")
    images = jax.random.normal(jax.random.key(0), (8, 6, 6, 1))
    keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(5), n))(jnp.arange(8))
    together = call(images, rng=keys)
    np.testing.assert_allclose(together[2:4], call(images[2:4], rng=keys[2:4]), atol=1e-5)
    assert jnp.abs(together - call(images)).max() > 1e-3


@pytest.mark.slow
def test_a_distilled_vit_takes_images_of_any_size_and_shows_where_it_looks():
    config = ViTConfig(8, 4, 1, 5, distilled=True, head="teacher").sized(8, 2, 2)
    model = ViT(config, rngs=nnx.Rngs(0))
    maps = compiled(model, "attention_maps")(jnp.ones((3, 12, 8, 1)))
    assert [m.shape for m in maps] == [(3, 2, 8, 8)] * 2
    np.testing.assert_allclose(maps[0].sum(-1), 1, atol=1e-5)
    with pytest.raises(ValueError, match="4 × 4 do not divide an image of 9 × 8"):
        model(jnp.ones((1, 9, 8, 1)))
    with pytest.raises(ValueError, match=r"must be b y x c, got shape \(8, 8, 1\)"):
        model(jnp.ones((8, 8, 1)))
