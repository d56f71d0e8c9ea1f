"""What the language model experiment claims, on shortened runs, for three seeds."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attn_jax.data.tokenizer import Tokenizer
from attn_jax.decode import Sample, Specials, generate
from experiments.language_model.__main__ import main
from experiments.language_model.baselines import compressed_bits, ngram_bits
from experiments.language_model.config import Config, Data, Model, Training
from experiments.language_model.system import System
from tests.experiments.tiny_text import arguments, teller

SMALL = Model(width=64, hidden=128, heads=2, layers=1, context=64, dropout=0.0)
SEEDS = (0, 1, 2)
pytestmark = pytest.mark.slow


told = teller(main, "language_model")


def test_counting_is_witten_and_bells():
    # after a: a twice, b once; of 3 characters 2 are distinct; below, 1/256 for anything
    alone = {"a": (3 + 2 / 256) / 6, "b": (1 + 2 / 256) / 6}
    after_a = {"a": (2 + 2 * alone["a"]) / 5, "b": (1 + 2 * alone["b"]) / 5}
    expected = -np.log2([alone["a"], after_a["a"], after_a["b"]]).sum() / 3
    assert ngram_bits(["aaab"], ["aab"], 2) == pytest.approx(expected, rel=0.02)
    assert compressed_bits(["one two three " * 9], ["one two three " * 9]) < 1


def test_a_short_while_of_training_beats_counting_pairs_for_every_seed():
    config = Config(data=Data(unit="character"), model=SMALL, train=Training(rows=16, steps=150))
    documents = config.data.load()
    system = System(config, config.data.tokenizer(documents))
    adam = optax.adam(3e-3)
    params = jax.tree.map(
        lambda *x: jnp.stack(x),
        *(System(Config(data=config.data, model=SMALL, seed=seed), system.tokenizer)
          .initial_state().params for seed in SEEDS),
    )  # fmt: skip

    def mean(params, batch):
        sums = system.loss(params, batch, None)
        return sums["loss"] / sums["count"]

    @jax.jit
    @jax.vmap
    def step(params, state, batch):
        updates, state = adam.update(jax.grad(mean)(params, batch), state)
        return optax.apply_updates(params, updates), state

    state = jax.vmap(adam.init)(params)
    pieces = system.pieces(documents.train)
    for number in range(config.train.steps):
        batches = [pieces[len(SEEDS) * number + i] for i in range(len(SEEDS))]
        params, state = step(params, state, jax.tree.map(lambda *x: np.stack(x), *batches))
    judge = system.judge(documents.heldout)
    bits = [
        judge(jax.tree.map(lambda x, i=i: x[i], params))["bits_per_character"]
        for i in range(len(SEEDS))
    ]
    assert max(bits) < ngram_bits(documents.train, documents.heldout, 2)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A tiny run on a text of one's own: its workdir, its arguments, and what it told."""
    directory = tmp_path_factory.mktemp("language model")
    given = [*arguments(directory), "--config.generate.length=12"]
    return directory / "run", given, told(*given)


def test_a_run_leaves_numbers_samples_and_a_picture(written):
    workdir, _, (code, out, err) = written
    assert code == 0, err
    result = json.loads((workdir / "result.json").read_text())
    assert result["step"] == 4
    assert len(result["validation"]) == 2
    assert np.exp(result["heldout"]["loss"]) == pytest.approx(result["heldout"]["perplexity"])
    samples = (workdir / "samples.txt").read_text("utf-8")
    assert samples.count("the 54th paragraph") == 5
    assert {"config.json", "losses.png", "tokenizer.model"} <= {p.name for p in workdir.iterdir()}
    assert "5-grams of characters" in out
    assert str(workdir / "losses.png") in out


def test_a_run_goes_on_and_refuses_to_be_another(written):
    workdir, arguments, _ = written
    longer = [x for x in arguments if "steps" not in x]
    code, _, err = told(*longer, "--config.train.steps=6")
    assert code == 0, err
    assert json.loads((workdir / "result.json").read_text())["step"] == 6
    code, _, err = told(*longer, "--config.train.steps=6", "--config.model.heads=2")
    assert code == 2
    assert "model.heads: 4 -> 2" in err
    code, _, err = told(*arguments, "--mode=generate", "--config.model.heads=2")
    assert code == 2
    assert "model.heads: 4 -> 2" in err


def test_what_is_written_is_the_prompt_and_what_follows(written):
    _, arguments, _ = written
    found = [told(*arguments, "--mode=generate", "--prompt=the 3", "--samples=2") for _ in range(2)]
    assert found[0] == found[1]
    assert found[0][0] == 0
    first, second = (x.removeprefix("the 3") for x in found[0][1].rstrip("\n").split("\n\nthe 3"))
    assert first != second
    code, out, _ = told(*arguments, "--mode=generate", "--config.generate.temperature=0.0")
    assert code == 0
    assert out


def test_text_that_streams_is_the_text_that_generate_finds():
    tokenizer = Tokenizer.characters(["the cat"])
    system = System(Config(model=SMALL), tokenizer)
    params, rng = system.initial_state().params, jax.random.key(3)
    prompt, options = "the ca", Sample(top_k=200)
    parts = list(system.write(params, prompt, options, rng, 40))
    run = jax.jit(
        lambda params, ids: generate(
            system.model(params), ids, options, length=41, specials=Specials(), rngs=rng[None]
        )
    )
    ids = tokenizer.encode(prompt)
    tokens = np.asarray(run(params, np.array([ids])).tokens[0, 0])
    assert "".join(parts) == tokenizer.decode([*ids, *tokens[:40]])[len(prompt) :]
    assert len(parts) > 1


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--config.data.unit=word", "no data.unit 'word'; there are subword, character"),
        ("--config.data.path=nowhere.txt", "no file nowhere.txt"),
        ("--config.model.positions=sines", "positions must be one of"),
        ("--config.model.longest=-4", "expected model.longest of at least 0, got -4"),
        ("--config.generate.top_p=2.0", "top_p"),
        ("--prompt=x", "--mode=train takes no --prompt; --mode=generate does"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(tmp_path, argument, message):
    code, _, err = told(f"--workdir={tmp_path}", argument)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_without_training_nothing_is_written(tmp_path):
    code, _, err = told(f"--workdir={tmp_path}", "--mode=generate")
    assert code == 2
    assert "nothing has been trained" in err
