"""Nadaraya-Watson regression is attention: keys are where something was observed, values what it was.

A score is the logarithm of a kernel, so that a softmax makes
:math:`w_{ij} = K(x_i, x_j) / \\sum_j K(x_i, x_j)`. Leaving each observation out of its own keys is a
mask, ``~masks.diagonal()``; and a sweep over widths is one call, with a head for each width.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attn_jax import Positions, Rule, attend, attention_stats, masks, regress, scores
from attn_jax.data.noisy_curve import Observations, curve, observe
from attn_jax.train import NonFinite
from experiments.kernel_regression.config import Config, Data, Depths, Heads, Learning, Sweep
from experiments.results import Row

KERNELS: dict[str, Callable[[Any], scores.Score]] = {
    "gaussian": scores.gaussian,
    "laplace": scores.laplace,
    "triangular": scores.triangular,
    "epanechnikov": scores.epanechnikov,
    "boxcar": scores.boxcar,
}
GRID = (
    np.arange(50, dtype=np.float32)[:, None] / 10
)  # where predictions are compared with the truth


def average() -> Rule:
    """A score that does not look, so that a prediction is the mean of everything."""
    return Rule(scores.l2(jnp.zeros(())))


def gaussian(width: Any) -> Rule:
    """Nadaraya and Watson's own: a softmax of the logarithm of a Gaussian kernel."""
    return Rule(scores.gaussian(width))


@functools.partial(jax.jit, static_argnames="heads")
def leave_one_out(rule: Rule, data: Observations, at: Any, heads: int) -> jax.Array:
    """Mean squared error of each head, `h`, predicting observations from all the others.

    Args:
      rule: with a width, or one for each head.
      data: x `n d` and y `n g e`; g divides h.
      at: which observations to leave out in turn, indices `t`.
      heads: h.
    """
    n, groups, _ = data.y.shape
    queries, keys = (
        jnp.repeat(x[:, None], copies, axis=1)
        for x, copies in ((data.x[at], heads), (data.x, groups))
    )
    here = Positions(at, jnp.arange(n))
    predicted = attend(queries, keys, data.y, rule=rule & ~masks.diagonal(), positions=here)
    missed = predicted - jnp.repeat(data.y[at], heads // groups, axis=1)
    return jnp.square(missed).mean((0, 2))


@functools.partial(jax.jit, static_argnames="heads")
def error_and_slope(rule: Rule, data: Observations, at: Any, heads: int) -> tuple[jax.Array, Rule]:
    """The heads' leave-one-out errors summed, and its derivative in each number of the rule."""
    return jax.value_and_grad(lambda rule: leave_one_out(rule, data, at, heads).sum())(rule)


def learn(
    rule: Rule, data: Observations, optimizer: optax.GradientTransformation, left_out: Iterable[Any]
) -> Iterator[tuple[Rule, float]]:
    """Descends the leave-one-out error. A rule is a pytree: it is its own parameters.

    Args:
      rule: with a width for each of the g curves.
      data: what was observed.
      optimizer: of Optax.
      left_out: for each epoch, which observations are left out in turn.

    Yields:
      The rule and its error, before each update.

    Raises:
      NonFinite: the error is not a number any more.
    """
    state = optimizer.init(rule)  # type: ignore[arg-type]
    for epoch, at in enumerate(left_out):
        error, slope = error_and_slope(rule, data, at, heads=data.y.shape[1])
        if not jnp.isfinite(error):
            raise NonFinite(f"epoch {epoch}: the leave-one-out error of {rule.score} is {error}")
        yield rule, float(error)
        updates, state = optimizer.update(slope, state)  # type: ignore[arg-type]
        rule = optax.apply_updates(rule, updates)  # type: ignore[arg-type, assignment]


def learn_width(data: Observations, learning: Learning, seed: int) -> list[Row]:
    """A single width by SGD: w and the loss at that w, before the first epoch and after each."""
    rng, n = np.random.default_rng(seed), len(data.x)
    left_out = (drawn(rng, n, learning.points) for _ in range(learning.epochs + 1))
    start = gaussian(learning.start)
    epochs: list[Row] = []
    for epoch, (rule, loss) in enumerate(learn(start, data, optax.sgd(learning.rate), left_out)):
        w = float(rule.score.bandwidth)  # type: ignore[attr-defined]
        print(f"epoch {epoch:>2}   loss {loss:.4f}   w {w:.4f}")
        epochs.append({"epoch": epoch, "loss": loss, "w": w})
    return epochs


def compare_estimators(data: Observations, rules: dict[str, Rule]) -> list[Row]:
    """Each rule with every observation left out in turn, and on the grid."""
    rows: list[Row] = []
    everyone = np.arange(len(data.x))
    for name, rule in rules.items():
        error = float(leave_one_out(rule, data, everyone, heads=1)[0])
        rows.append({"estimator": name, "left-out error": error, **on_the_grid(rule, data)})
    return rows


def sweep(score: Callable[[Any], scores.Score], data: Observations, tried: Sweep) -> np.ndarray:
    """Leave-one-out errors at each of the widths, `h`: a head for each."""
    at = drawn(np.random.default_rng(0), len(data.x), tried.points)
    return np.asarray(leave_one_out(Rule(score(tried.values())), data, at, heads=tried.widths))


def compare_kernels(data: Observations, tried: Sweep) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Every kernel at the width that leaving one out chooses for it; and the errors of all widths."""
    rows: list[Row] = []
    errors = {}
    for name, kernel in KERNELS.items():
        errors[name] = sweep(kernel, data, tried)
        best = errors[name].argmin()
        width = float(tried.values()[best])
        row = {"kernel": name, "width": width, "left-out error": float(errors[name][best])}
        rows.append({**row, **on_the_grid(Rule(kernel(width)), data)})
    return rows, errors


def observe_for(heads: Heads, made: Data) -> Observations:
    """A curve for each head, at the same points."""
    return observe(
        made.points, seed=made.seed, noise=made.noise, speeds=heads.speeds, times=heads.times
    )


def learn_heads(data: Observations, heads: Heads, tried: Sweep) -> tuple[list[Row], Rule]:
    """One width per head, all learned together, beside the best width that they could share."""
    everyone, h = np.arange(len(data.x)), len(heads.speeds)
    start = gaussian(np.full(h, heads.start, np.float32))
    left_out = [everyone] * (heads.epochs + 1)
    *_, (rule, _) = learn(start, data, optax.adam(heads.rate), left_out)
    errors = leave_one_out(rule, data, everyone, heads=h)
    alone = [sweep(scores.gaussian, data._replace(y=data.y[:, [head]]), tried) for head in range(h)]
    shared = int(np.sum(alone, axis=0).argmin())
    rows: list[Row] = [
        {
            "head": head,
            "speed": speed,
            "learned": float(rule.score.bandwidth[head]),  # type: ignore[attr-defined]
            "swept": float(tried.values()[alone[head].argmin()]),
            "left-out error": float(errors[head]),
            "with one for all": float(alone[head][shared]),
        }
        for head, speed in enumerate(heads.speeds)
    ]
    return rows, rule


def compare_depths(depths: Depths, made: Data, tried: Sweep) -> list[Row]:
    """Equally many observations in more dimensions, where neighbours are farther away."""
    rows: list[Row] = []
    for depth in depths.depths:
        data = observe(made.points, seed=made.seed, noise=made.noise, depth=depth)
        truth = observe(depths.tests, seed=made.seed + 1, noise=0.0, depth=depth)
        errors = sweep(scores.gaussian, data, tried)
        width = float(tried.values()[errors.argmin()])
        missed = [
            float(np.square(predict(rule, data, truth.x) - truth.y[:, 0]).mean())
            for rule in (gaussian(width), average())
        ]
        row = {"depth": depth, "width": width, "left-out error": float(errors.min())}
        rows.append({**row, "true error": missed[0], "of average pooling": missed[1]})
    return rows


def run(config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole experiment: what it found, and what there is to draw, the arguments of `draw`."""
    data = observe(config.data.points, seed=config.data.seed, noise=config.data.noise)
    epochs = learn_width(data, config.learning, config.data.seed)
    w = epochs[-1]["w"]
    rules = {
        "average pooling": average(),
        "Gaussian, w = 1": gaussian(1.0),
        f"learned, w = {w:.3f}": gaussian(w),
    }
    kernels, errors = compare_kernels(data, config.sweep)
    result = {
        "learned w": w,
        "epochs": epochs,
        "estimators": compare_estimators(data, rules),
        "kernels": kernels,
        "heads": [],
        "depths": compare_depths(config.depths, config.data, config.sweep),
    }
    drawing: dict[str, Any] = {"data": data, "rules": rules, "errors": errors, "epochs": epochs}
    if config.heads.speeds:
        curves = observe_for(config.heads, config.data)
        result["heads"], by_head = learn_heads(curves, config.heads, config.sweep)
        drawing["heads"] = (curves, by_head)
    return result, drawing


@jax.jit
def predict(rule: Rule, data: Observations, x: Any) -> jax.Array:
    """What the rule says of a single curve at x, `t e`."""
    return regress(x, data.x, data.y[:, 0], rule=rule)


def on_the_grid(rule: Rule, data: Observations) -> Row:
    """The mean squared distance from the truth, and how many observations count."""
    predicted, used = predict_and_count(rule, data)
    error = np.square(np.asarray(predicted) - curve(GRID)).mean()
    return {"true error": float(error), "points used": float(used)}


@jax.jit
def predict_and_count(rule: Rule, data: Observations) -> tuple[jax.Array, jax.Array]:
    """Predictions on the grid, and the mean exp(entropy) of their weights: n for n equal ones."""
    entropy = attention_stats(jnp.asarray(GRID)[:, None], data.x[:, None], rule=rule).entropy
    return predict(rule, data, GRID), jnp.exp(entropy).mean()


def drawn(rng: np.random.Generator, n: int, points: int) -> np.ndarray:
    """Indices of so many of n observations, in order; of all for 0."""
    if not 0 <= points <= n:
        raise ValueError(f"cannot draw {points} of {n} observations; 0 stands for all")
    return np.sort(rng.choice(n, points, replace=False)) if points else np.arange(n)
