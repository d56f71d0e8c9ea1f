import json
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attn_jax import train
from attn_jax.train.precision import LossScale, Precision

HALF = Precision("float16", scale=4.0, growth_every=3)


def steep(params, batch, rngs):
    """Σ x w, whose gradient with regard to w is Σ x: beyond float16's 65,504 once it is scaled."""
    product = params["w"] * batch["x"].astype(params["w"].dtype)
    count = jnp.asarray(batch["x"].size, jnp.int32)
    return {"loss": jnp.sum(product.astype(jnp.float32)), "count": count}


def batch_of(x):
    return {"x": np.full(1, x, np.float32), "index": np.zeros(1, np.int32)}


@pytest.fixture(scope="module")
def half_step():
    return train.make_step(steep, optax.sgd(1.0), precision=HALF)


def half_state(scale=4.0):
    params = {"w": jnp.ones((), jnp.float32)}
    precision = Precision("float16", scale=scale, growth_every=3)
    return train.State.create(params, optax.sgd(1.0), jax.random.key(0), precision=precision)


def test_an_overflow_skips_the_step_and_halves_the_scale_which_grows_back(half_step):
    state, scales, applied = half_step.place(half_state()), [], []
    for x in (2.0**15, 2.0**15, 1.0, 1.0, 1.0, 1.0):  # times 4 and times 2: too much; then not
        before = np.asarray(state.params["w"])
        state, metrics = half_step(state, batch_of(x))
        scales.append(float(state.scale.value))
        applied.append(bool(metrics["applied"]))
        moved = before - np.asarray(state.params["w"])
        assert moved == (x if applied[-1] else 0)  # whatever the scale
        assert bool(metrics["overflow"]) is not applied[-1]
    assert scales == [2.0, 1.0, 1.0, 1.0, 2.0, 2.0]
    assert applied == [False, False, True, True, True, True]
    assert (int(state.step), int(state.failures)) == (6, 0)
    assert state.params["w"].dtype == jnp.float32


def test_what_no_scale_can_mend_is_a_failure(half_step):
    for scale, x in (
        (1.0, 2.0**17),
        (4.0, np.nan),
    ):  # the scale is as small as may be; the loss is NaN
        state, metrics = half_step(half_step.place(half_state(scale)), batch_of(x))
        assert not metrics["overflow"]
        assert (int(state.failures), int(state.step), float(state.scale.value)) == (1, 0, scale)


def test_small_gradients_survive_for_being_scaled():
    def tiny(scale):
        step = train.make_step(steep, optax.sgd(1.0), precision=Precision("float16", scale=scale))
        params = {"w": jnp.float32(0)}
        precision = Precision("float16", scale=scale)
        state = train.State.create(params, optax.sgd(1.0), jax.random.key(0), precision=precision)
        squared = step(step.place(state), batch_of(2.0**-24))[0].params["w"]
        return float(squared)

    assert tiny(2.0**10) == -(2.0**-24)


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "float16"])
def test_the_loss_is_computed_in_it_and_the_rest_keeps_its_own(tiny, compute):
    precision = Precision(compute)
    step = train.make_step(tiny.loss, tiny.optimizer(), precision=precision)
    state = train.State.create(
        tiny.parameters(), tiny.optimizer(), jax.random.key(0), ema=True, precision=precision
    )
    program = str(
        jax.make_jaxpr(step.update)(state, step.layout.place_batch(tiny.batch_of([1, 2])))
    )
    products = set(re.findall(r":(\w+)\[[\d,]*\] = dot_general", program))
    assert products == {{"float32": "f32", "bfloat16": "bf16", "float16": "f16"}[compute]}
    after, _ = jax.eval_shape(step.update, state, tiny.batch_of([1, 2]))
    chex.assert_trees_all_equal_shapes_and_dtypes(after, state)


@pytest.mark.slow
def test_bfloat16_learns_as_float32_does(tiny):
    losses = {}
    for compute in ("float32", "bfloat16", "float16"):
        precision = Precision(compute, scale=2.0**6)
        step = train.make_step(tiny.loss, tiny.optimizer(), precision=precision)
        state = train.State.create(
            tiny.parameters(), tiny.optimizer(), jax.random.key(0), precision=precision
        )
        state, batches = step.place(state), tiny.batches()
        for _ in range(30):
            state, _ = step(state, next(batches))
        evaluate = train.make_evaluate(tiny.loss, precision=precision)
        losses[compute] = evaluate(state.params, [tiny.batch_of(range(24))])["loss"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.02)
    assert losses["float16"] == pytest.approx(losses["float32"], rel=0.02)


@pytest.mark.slow
def test_the_scale_is_saved_told_and_gone_on_with(half_step, tmp_path, capsys):
    def run(workdir, steps):
        stream = train.Stream(lambda n: batch_of(2.0**15 if n < 2 else 1.0))
        plan = train.Plan(steps, log_every=3)
        return train.fit(half_state(), half_step, stream, plan=plan, run=train.Run(workdir))[0]

    whole = run(tmp_path / "whole", 9)
    run(tmp_path / "parts", 4)
    assert "step 1 skipped: its gradient overflows float16 with a loss scale of 4," in (
        capsys.readouterr().err
    )
    parts = run(tmp_path / "parts", 9)
    chex.assert_trees_all_equal((whole.params, whole.scale), (parts.params, parts.scale))
    texts = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "parts")]
    assert texts[0] == texts[1]
    lines = [json.loads(line) for line in texts[0].splitlines()]
    assert [line.get("skipped") for line in lines] == [2, None, None]
    assert [line["loss_scale"] for line in lines] == [1.0, 2.0, 4.0]


def test_the_scale_doubles_after_as_many_steps_as_it_is_told():
    scale = LossScale(jnp.float32(8), jnp.int32(1))
    scale = HALF.next_scale(scale, jnp.array(True), jnp.array(False))
    assert (float(scale.value), int(scale.since)) == (8, 2)
    scale = HALF.next_scale(scale, jnp.array(True), jnp.array(False))
    assert (float(scale.value), int(scale.since)) == (16, 0)


@pytest.mark.parametrize(
    ("wrong", "told"), [({"compute": "int8"}, "there are float32"), ({"scale": 0.5}, "at least 1")]
)
def test_what_is_none_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        Precision(**wrong)
