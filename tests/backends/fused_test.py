"""What fused adds to the suite that all backends share: what it refuses, and what it lowers to.

No GPU is needed to lower a program for one. Where JAX finds no cuDNN it is told a version of it,
which is all that it asks of cuDNN before a program runs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import (
    Dropout,
    Rule,
    attend,
    attend_with_lse,
    backends,
    biases,
    explain,
    features,
    masks,
    normalizers,
    scores,
)
from attn_jax.backends.dispatch import choose
from attn_jax.backends.problem import describe
from attn_jax.backends.structure import structure_of

B, T, H, G, D, E = 2, 64, 4, 2, 16, 12
CUDNN = backends.fused("cudnn")


@pytest.fixture
def cudnn(monkeypatch):
    from jax._src.cudnn import fused_attention_stablehlo as kernels

    if kernels.cuda_versions is None:
        monkeypatch.setattr(kernels, "check_cudnn_version", lambda: 91900)


def arrays(dtype=jnp.bfloat16, s=T):
    rng = np.random.default_rng(0)
    shapes = (B, T, H, D), (B, s, G, D), (B, s, G, E)
    return [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def text_of(rule, backend, platform="cuda", dtype=jnp.bfloat16):
    """The program of output and gradients, as it is handed to the compiler of a platform."""

    def both_ways(q, k, v, rule):
        y, pull = jax.vjp(lambda *x: attend(*x, rule=rule, backend=backend), q, k, v)
        return y, pull(y)

    traced = jax.jit(both_ways).trace(*arrays(dtype), rule)
    return traced.lower(lowering_platforms=(platform,)).as_text().replace("\\22", '"')


TOLD = {
    "nothing": (lambda: Rule(), '"NO_MASK"', 0),
    "causal": (lambda: Rule(mask=masks.causal()), '"CAUSAL"', 0),
    "window": (lambda: Rule(mask=masks.window(9, 0)), '"CAUSAL"', 10),
    "window, in other words": (
        lambda: Rule(mask=masks.causal() & masks.window(9, 9)),
        '"CAUSAL"',
        10,
    ),
    "lengths": (lambda: Rule(mask=masks.lengths([0, 7])), '"PADDING"', 0),
    "causal lengths": (
        lambda: Rule(mask=masks.lengths(jnp.array([0, 7])) & masks.causal()),
        '"PADDING_CAUSAL"',
        0,
    ),
}


@pytest.mark.parametrize(
    "name", [n if n == "window" else pytest.param(n, marks=pytest.mark.slow) for n in TOLD]
)
def test_cudnn_is_told_of_masks_by_name(cudnn, name):
    make, kind, window = TOLD[name]
    text = text_of(make(), CUDNN)
    for kernel in ("__cudnn$fmhaSoftmax(", "__cudnn$fmhaSoftmaxBackward("):
        assert kernel in text
    assert text.count(f'"mask_type": {kind}') == 2
    assert text.count(f'"sliding_window_length": {window},') == 2
    assert f"x{T}x{T}x" not in text  # nothing of t × s


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: Rule(mask=masks.valid(np.ones((B, T), bool))),
        lambda: Rule(mask=masks.window(9, 0) & masks.lengths([3, 9])),
        lambda: Rule(mask=masks.window(3, 3)),
        lambda: Rule(mask=masks.causal(), bias=biases.dense(jnp.zeros((H, T, T), jnp.bfloat16))),
    ],
    ids=["valid", "window and lengths", "window both ways", "bias"],
)
def test_other_masks_and_biases_are_arrays(cudnn, make):
    text = text_of(make(), CUDNN)
    assert "__cudnn$fmhaScaleBiasSoftmax(" in text
    assert text.count('"mask_type": "NO_MASK"') == 2
    assert f"a mask of {T} × {T}" in CUDNN.cost(describe(*arrays(), make()))


@pytest.mark.slow
@pytest.mark.parametrize("axes", [(0, 0, 0), (1, 1, 1), (0, None, None)], ids=str)
@pytest.mark.parametrize(
    "mask", [masks.lengths([0, 7]), masks.valid(np.ones((B, T), bool))], ids=str
)
def test_cudnn_under_vmap(cudnn, mask, axes):
    """Whatever is mapped; the mask is not."""

    def both_ways(*x):
        y, pull = jax.vjp(lambda *x: attend(*x, rule=Rule(mask=mask), backend=CUDNN), *x)
        return y, pull(y)

    x = [a if n is None else jnp.stack([a] * 3, n) for n, a in zip(axes, arrays(), strict=True)]
    traced = jax.jit(jax.vmap(both_ways, axes)).trace(*x)
    text = traced.lower(lowering_platforms=("cuda",)).as_text().replace("\\22", '"')
    assert f'"dimensions": ["{3 * B}", "{H}", "{T}", "{T}"]' in text


def test_which_implementation_is_settled_when_the_program_is_lowered(cudnn):
    """And not by the devices of the process that traces it."""
    rule = Rule(mask=masks.causal())
    q, k, v = arrays()
    traced = jax.jit(lambda *x: attend(*x, rule=rule, backend="fused")).trace(q, k, v)
    assert "cudnn" in traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "cudnn" not in traced.lower(lowering_platforms=("cpu",)).as_text()


@pytest.mark.slow
def test_where_cudnn_is_found_a_cpu_gets_the_same_answers(cudnn):
    """Gradients too, under vmap."""
    cotangent = jnp.cos(jnp.arange(B * T * H * E)).reshape(B, T, H, E).astype(jnp.bfloat16)
    for mask in (masks.window(9, 0), masks.lengths([0, 7])):

        def both_ways(backend, *x, mask=mask):
            rule = Rule(mask=mask)
            y, pull = jax.vjp(lambda *x: attend(*x, rule=rule, backend=backend), *x)
            return y, pull(cotangent)

        stacked = [jnp.stack([x, x[::-1]]) for x in arrays()]
        by_fused, by_dense = (
            jax.jit(jax.vmap(functools.partial(both_ways, backend)))(*stacked)
            for backend in ("fused", "dense")
        )
        assert explain(*arrays(), rule=Rule(mask=mask))["fused"].reason.startswith("cuDNN")
        for a, b in zip(jax.tree.leaves(by_fused), jax.tree.leaves(by_dense), strict=True):
            np.testing.assert_allclose(a.astype(jnp.float32), b.astype(jnp.float32), atol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(
    "backend", [backends.fused("xla"), backends.blockwise((512, 512))], ids=str
)
def test_what_xla_compiles_lowers_for_other_platforms(backend, dtype):
    rule = Rule(
        scores.gaussian(2.0),
        biases.alibi(H),
        mask=masks.causal(),
        normalizer=normalizers.softmax(0.0),
    )
    for platform in ("cuda", "rocm", "tpu"):
        assert "cudnn" not in text_of(rule, backend, platform, dtype)


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (dict(rule=Rule(normalizer=normalizers.sigmoid())), r"only softmax, not sigmoid\(\)"),
        (dict(rule=Rule(transform=lambda s, i, j: s / 2)), "transforms and dropout"),
        (dict(dropout=Dropout(0.1, jax.random.key(0))), "transforms and dropout"),
        (dict(rule=Rule(scores.laplace(1.0))), r"scores.laplace\(\) is no inner product"),
    ],
)
def test_what_no_implementation_can_do(problem, says):
    with pytest.raises(ValueError, match=f"the fused backend refuses: .*{says}"):
        attend(*arrays(), backend="fused", **problem)


def test_float64_is_refused(x64):
    with pytest.raises(ValueError, match=r"jax.nn normalises in float32"):
        attend(*arrays(jnp.float64), backend="fused")


@pytest.mark.parametrize(
    ("dtype", "rule", "says"),
    [
        (jnp.float32, Rule(), r"takes float16 or bfloat16: .*is float32 \(v is float32\)"),
        (
            jnp.bfloat16,
            Rule(scores.cosine(0.5)),
            r"scores.cosine\(0.5\) makes of",
        ),
        (jnp.bfloat16, Rule(bias=biases.alibi(H)), "would round the bias, float32, to bfloat16"),
        (jnp.bfloat16, Rule(normalizer=normalizers.softmax(0.0)), "sinks need too"),
    ],
)
def test_cudnn_rounds_nothing_that_others_do_not(cudnn, dtype, rule, says):
    with pytest.raises(ValueError, match=f"the fused backend refuses: .*{says}"):
        attend(*arrays(dtype), rule=rule, backend=CUDNN)
    assert explain(*arrays(dtype), rule=rule)["fused"].reason.startswith("jax.nn: all")


def test_cudnn_has_the_last_word(cudnn):
    with pytest.raises(ValueError, match=r"log-sum-exp, which .* has no gradient"):
        attend_with_lse(*arrays(), backend=CUDNN)
    deep = [jnp.zeros((1, 8, 1, 512), jnp.bfloat16)] * 3
    with pytest.raises(ValueError, match="JAX says of cuDNN: The head dim must be <="):
        attend(*deep, backend=CUDNN)


def test_an_implementation_that_is_none():
    with pytest.raises(
        ValueError, match='must be None, "xla", "cudnn" or "splash", got \'triton\''
    ):
        backends.fused("triton")


def test_auto_takes_it_on_a_gpu_for_what_the_kernel_knows_by_name(cudnn, monkeypatch):
    def chosen(rule, dtype=jnp.bfloat16):
        return choose("auto", describe(*arrays(dtype), rule)).name

    assert chosen(Rule(mask=masks.causal())) == "dense"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert chosen(Rule(mask=masks.causal())) == "fused"
    assert chosen(Rule(mask=masks.valid(np.ones(T, bool)))) == "dense"
    assert chosen(Rule(), jnp.float32) == "dense"
    linear = Rule(scores.kernel(features.elu_plus_one()), normalizer=normalizers.l1())
    assert chosen(linear) == "dense"


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["start", "end"])
@pytest.mark.parametrize(("t", "s"), [(5, 7), (7, 4), (1, 6)])
def test_a_band_knows_which_queries_and_keys_take_part(t, s, positions):
    q, k = np.zeros((2, t, 1, 1), np.float32), np.zeros((2, s, 1, 1), np.float32)
    for mask in (
        masks.causal(),
        masks.causal(-3) & masks.lengths([0, 3]),
        masks.window(1, -1),
        masks.band(low=2),
        masks.diagonal() & masks.lengths(2),
    ):
        structure = structure_of(describe(q, k, None, Rule(mask=mask), positions))
        allowed = np.broadcast_to(mask.dense(t, s, positions), (2, 1, t, s))[:, 0]
        np.testing.assert_array_equal(structure.seeing() | np.zeros((2, t), bool), allowed.any(-1))
        np.testing.assert_array_equal(structure.seen() | np.zeros((2, s), bool), allowed.any(-2))


def test_other_masks_are_no_band():
    q = np.zeros((2, 3, 1, 1), np.float32)
    for mask in (
        ~masks.causal(),
        masks.causal() | masks.prefix(2),
        masks.valid([True, False, True]),
        masks.causal(jnp.int32(1)),
    ):
        assert structure_of(describe(q, q, None, Rule(mask=mask))) is None


SPLASH = backends.fused("splash")
BANDS = {
    "nothing": lambda: Rule(),
    "causal": lambda: Rule(mask=masks.causal()),
    "window both ways": lambda: Rule(mask=masks.window(9, 5)),
    "causal lengths": lambda: Rule(mask=masks.lengths([0, 7]) & masks.causal()),
    "gaussian window": lambda: Rule(scores.gaussian(2.0), mask=masks.window(9, 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BANDS)
def test_splash_gives_the_values_and_gradients_of_dense(name):
    rule = BANDS[name]()

    def both_ways(backend):
        def attended(*x):
            return attend(*x, rule=rule, positions="start", backend=backend)

        y, pull = jax.vjp(attended, *arrays(jnp.float32, s=T + 9))
        return y, pull(jnp.cos(jnp.arange(y.size)).reshape(y.shape))

    found, expected = both_ways(SPLASH), both_ways("dense")
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_on_a_tpu_it_is_splash_s_kernels_forward_and_backward_and_no_scores(dtype):
    text = text_of(Rule(mask=masks.window(9, 0)), SPLASH, "tpu", dtype)
    assert text.count("tpu_custom_call") == 3
    long = [jnp.zeros((1, 1000, 1, 64), dtype)] * 3
    traced = jax.jit(lambda *x: attend(*x, rule=Rule(mask=masks.causal()), backend=SPLASH)).trace(
        *long
    )
    assert "1024x1024x" not in traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "tpu_custom_call" not in text_of(Rule(mask=masks.causal()), "fused", "tpu", dtype)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (Rule(mask=masks.stride(3)), "bands and lengths"),
        (Rule(bias=biases.alibi(H)), "knows no bias"),
        (Rule(normalizer=normalizers.softmax(sink=0.0)), "no gradient"),
        (Rule(scores.l2(1.0), normalizer=normalizers.sigmoid()), "only softmax"),
    ],
    ids=["mask", "bias", "sink", "normalizer"],
)
def test_what_splash_cannot_do_it_refuses(rule, why):
    with pytest.raises(ValueError, match=why):
        attend(*arrays(), rule=rule, backend=SPLASH)
    with pytest.raises(ValueError, match="no gradient"):
        attend_with_lse(*arrays(), backend=SPLASH)
