"""Every config of the translation experiment describes what can be built."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from attn_jax.train import cross_entropy
from experiments.command_line import load
from experiments.overrides import UsageError, fields
from experiments.translate.config import Config, Model, Training
from experiments.translate.models import NORMALIZERS, SCORES
from experiments.translate.workdir import Workdir

CONFIGS = Path(__file__).parents[2] / "configs" / "translate"
PAIRS = ["en-fr", "en-de", "de-en", "fr-en", "de-fr", "fr-de"]
VARIANTS = {
    "quickstart": ["", "en-fr", "en-de", "en-zh"],
    "multi30k": ["", *PAIRS, *(f"{pair}-best" for pair in PAIRS)],
    "bahdanau": ["", *PAIRS],
    "seq2seq": ["", *PAIRS],
    "iwslt14": ["", "de-en", "en-de"],
    "wmt14": ["", "base", "big"],
    "wmt17": ["", "base", "big"],
    "tatoeba": ["", "en-zh", "zh-en"],
    "files": ["", "aligned", "tsv", "tfds"],
}


def slow(file, name):
    """Whether a variant's model takes long to trace."""
    return file in ("iwslt14", "tatoeba", "wmt14", "wmt17") or name.endswith("-best")


@functools.cache
def shapes_of_a_step(model, vocabulary, smoothing):
    """What a training step makes of a state, abstractly; models of equal sections share it."""
    config = Config(model=model.value, vocabulary=vocabulary, train=Training(smoothing=smoothing))

    def step():
        built = nnx.split(config.model.build(vocabulary, 0), nnx.Param, ...)
        graph, params, rest = built
        ids = jnp.ones((1, 3), int)

        def loss(params):
            logits = nnx.merge(graph, params, rest)(ids, ids[:, :2], rng=jax.random.key(0))
            return cross_entropy(logits, ids[:, :2], smoothing=smoothing)["loss"]

        return params, jax.grad(loss)(params)

    return jax.eval_shape(step)


class Section(NamedTuple):
    """A config section, compared by what it says."""

    name: str
    value: Any

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param(file, name, marks=[pytest.mark.slow] if slow(file, name) else [])
        for file, names in VARIANTS.items()
        for name in names
    ],
)
def test_every_config_describes_a_model_an_optimizer_and_a_plan(file, name):
    config = load(f"{CONFIGS / file}.py:{name}".removesuffix(":"))
    assert isinstance(config, Config)
    section = Section(repr(config.model), config.model)
    params, gradients = shapes_of_a_step(section, 99, config.train.smoothing)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, gradients)
    optimizer = config.optimizer.build(config.train.steps)
    updates, _ = jax.eval_shape(
        lambda p, g: optimizer.update(g, optimizer.init(p), p), params, gradients
    )
    assert jax.tree.map(jnp.shape, updates) == jax.tree.map(jnp.shape, params)
    config.train.plan(evaluates=True)
    assert config.decode.options is not None
    assert config.decode.length.longest >= config.batches.longest
    some = {"decode", "mesh", "data.directory", "data.cache", "model.backend"}
    assert {*dict(fields(config)), *some} >= Workdir.free
    assert Workdir.plain(config)["data"]["corpus"] == type(config.data).__name__


@pytest.mark.slow
def test_the_paper_s_models_have_the_paper_s_sizes():
    counts = {}
    for file, name in (("wmt14", "base"), ("wmt14", "big"), ("bahdanau", ""), ("seq2seq", "")):
        config = load(f"{CONFIGS / file}.py:{name}".removesuffix(":"))
        section = Section(repr(config.model), config.model)
        params, _ = shapes_of_a_step(section, config.vocabulary, config.train.smoothing)
        counts[file, name] = sum(x.size for x in jax.tree.leaves(params)) / 1e6
    assert [round(count, 1) for count in counts.values()] == [63.1, 214.2, 3.4, 3.2]


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi", "t5", "none"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_positions_scores_and_normalizers_are_values_of_a_config(positions, score, normalizer):
    model = Model(8, 8, 2, 1, 1, positions=positions, score=score, normalizer=normalizer)
    model.backend = "dense"
    params, _ = shapes_of_a_step(Section(repr(model), model), 9, 0.1)
    built = jax.eval_shape(lambda: nnx.state(Model(8, 8, 2, 1, 1).build(9, 0), nnx.Param))
    more = sum(x.size for x in jax.tree.leaves(params)) - sum(
        x.size for x in jax.tree.leaves(built)
    )
    learned = {"learned": 2 * 256 * 8, "t5": 2 * 32 * 2}.get(positions, 0)
    assert more == learned + (score in ("cosine", "l2")) + 2 * (normalizer == "softmax_sink")


def test_a_published_model_asks_for_its_directory():
    for name in ("", *PAIRS, "aligned", "tsv"):
        config = load(f"{CONFIGS / 'marian'}.py:{name}".removesuffix(":"))
        with pytest.raises(ValueError, match=r"give --config\.model\.directory=DIR"):
            config.model.build(9, 0)


def test_no_config_is_left_out():
    assert {path.stem for path in CONFIGS.glob("*.py")} == {*VARIANTS, "marian"}


@pytest.mark.parametrize("name", [*VARIANTS, "marian"])
def test_an_unknown_variant_is_refused_with_those_there_are(name):
    with pytest.raises(UsageError, match="no variant 'en-xx'; there are"):
        load(f"{CONFIGS / name}.py:en-xx")
