"""What the masked language model experiment claims, on shortened runs, for three seeds."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attn_jax.data.tokenizer import Tokenizer
from experiments.masked_language_model.__main__ import main
from experiments.masked_language_model.baselines import Counts
from experiments.masked_language_model.config import Config, Data, Masking, Model
from experiments.masked_language_model.masking import MASK, SPECIALS, one_by_one
from experiments.masked_language_model.system import System
from experiments.masked_language_model.training import counted, flowing, judged
from tests.experiments.tiny_text import arguments, teller

SEEDS = (0, 1, 2)
pytestmark = pytest.mark.slow


told = teller(main, "masked_language_model")


def test_fifteen_of_a_hundred_are_asked_and_hidden_in_three_ways():
    tokens = np.random.default_rng(0).integers(0, 1_000, (200, 500), np.int32)
    inputs, labels = Masking().hide(tokens, 1_000, (0, 1))
    asked, text = labels > 0, tokens >= SPECIALS
    np.testing.assert_array_equal(labels[asked], tokens[asked])
    np.testing.assert_array_equal(inputs[~asked], tokens[~asked])
    assert not asked[~text].any()
    assert asked.sum() / text.sum() == pytest.approx(0.15, rel=0.03)
    seen, truth = inputs[asked], tokens[asked]
    assert (seen == MASK).mean() == pytest.approx(0.8, rel=0.02)
    assert (seen == truth).mean() == pytest.approx(0.1, rel=0.1)
    other = seen[(seen != MASK) & (seen != truth)]
    assert other.size / seen.size == pytest.approx(0.1, rel=0.1)
    assert other.min() >= SPECIALS
    again = Masking().hide(tokens, 1_000, (0, 1))[0]
    np.testing.assert_array_equal(inputs, again)
    assert (Masking().hide(tokens, 1_000, (0, 2))[0] != inputs).any()


def test_counting_is_witten_and_bells_and_a_chains():
    tokens, v = np.array([4, 5, 4, 4, 5, 6]), 7
    counts = Counts(tokens, v)
    alone = (np.bincount(tokens, minlength=v) + 3 / v) / 9
    np.testing.assert_allclose(counts.alone, alone)
    followers = {4: [5, 4, 5], 5: [4, 6]}
    after = np.tile(alone, (v, 1))
    for left, following in followers.items():
        n = np.bincount(following, minlength=v)
        after[left] = (n + 2 * alone) / (len(following) + 2)
    for x in range(v):
        np.testing.assert_allclose(counts.after(x), after[x])
        np.testing.assert_allclose(counts.before(x), after[:, x])
    both = after[4] * after[:, 5]
    np.testing.assert_allclose(counts.between(4, 5), both / both.sum())
    assert counts.between(4, 5).sum() == pytest.approx(1)


def test_each_token_is_hidden_alone_in_what_stands_around_it():
    tokens, places = np.arange(10, 40, dtype=np.int32), np.array([1, 15, 28])
    (pieces, at), (last, _) = one_by_one(tokens, places, length=8, rows=2)
    assert (pieces == MASK).sum() == 2
    np.testing.assert_array_equal(pieces[[0, 1], at], MASK)
    np.testing.assert_array_equal(pieces[1], [21, 22, 23, 24, MASK, 26, 27, 28])
    np.testing.assert_array_equal(last[0], [32, 33, 34, 35, 36, 37, MASK, 39])


def test_a_short_while_of_training_beats_the_left_neighbour_for_every_seed():
    config = Config(
        data=Data(unit="character"), judged=256,
        model=Model(width=64, hidden=128, heads=4, layers=1, context=32, dropout=0.0),
    )  # fmt: skip
    documents = flowing(config.data.load())
    systems = [
        System(Config(config.data, model=config.model, judged=256, seed=seed), tokenizer)
        for tokenizer in [config.data.tokenizer(documents)]
        for seed in SEEDS
    ]
    system, adam = systems[0], optax.adam(3e-3)
    params = jax.tree.map(lambda *x: jnp.stack(x), *(x.initial_state().params for x in systems))

    def mean(params, batch):
        sums = system.loss(params, batch, None)
        return sums["loss"] / sums["count"]

    @jax.jit
    @jax.vmap
    def step(params, state, batch):
        updates, state = adam.update(jax.grad(mean)(params, batch), state)
        return optax.apply_updates(params, updates), state

    state, pieces = jax.vmap(adam.init)(params), [x.pieces(documents.train) for x in systems]
    for number in range(200):
        batches = jax.tree.map(lambda *x: np.stack(x), *(x[number] for x in pieces))
        params, state = step(params, state, batches)
    heldout = system.tokens(documents.heldout)
    places = system.places(heldout)
    counts = Counts(system.tokens(documents.train), len(system.tokenizer))
    by_counting = counted(counts, heldout, places)["the left neighbour"]
    for seed in SEEDS:
        mine = jax.tree.map(lambda x, seed=seed: x[seed], params)
        found = judged(system.one_by_one(mine, heldout, places), heldout[places])
        assert found[0].mean() > by_counting[0].mean()
        assert found[1].mean() > by_counting[1].mean()


def test_blanks_are_masks_with_the_space_that_a_word_begins_with():
    tokenizer = Tokenizer.train(["the cat sat on the mat"] * 9, size=280)
    system = System(Config(model=Model(width=8, hidden=8, heads=4, layers=1)), tokenizer)
    for sentence, whole in {
        "the ___ sat.": ("the", MASK, " sat."),
        "___ cat": (MASK, " cat"),
        "the ca___, ___": ("the ca", MASK, ",", MASK),
    }.items():
        expected = [tokenizer.eos]
        for i, part in enumerate(whole):
            if part == MASK:
                expected.append(MASK)
            elif i == 0:
                expected += tokenizer.encode(part)
            else:  # what goes on, without the space that every text begins with
                start = tokenizer.encode("the")
                expected += tokenizer.encode("the" + part)[len(start) :]
        assert system.blanks(sentence).tolist() == [[*expected, tokenizer.eos]]
    with pytest.raises(ValueError, match="but the model reads 64"):
        system.blanks("the ___ " + 70 * "cat ")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A tiny run on a text of one's own: its workdir, its arguments, and what it told."""
    directory = tmp_path_factory.mktemp("masked language model")
    given = [
        *arguments(directory),
        "--config.judged=40",
        "--config.fill.sentences=('the ___th ___',)",
    ]
    return directory / "run", given, told(*given)


def test_a_run_leaves_numbers_and_pictures_and_fills_in(written):
    workdir, _, (code, out, err) = written
    assert code == 0, err
    result = json.loads((workdir / "result.json").read_text())
    assert result["step"] == 4
    assert len(result["validation"]) == 2
    assert len(result["one by one"]) == 4
    assert sum(row["tokens"] for row in result["by frequency"]) == 40
    first, second = result["filled"]["the ___th ___"]
    assert len(first) == len(second) == 5
    assert 0 < sum(p for _, p in first) <= 1
    names = {path.name for path in workdir.iterdir()}
    assert {"config.json", "losses.png", "frequencies.png", "tokenizer.model"} <= names
    assert "both neighbours" in out
    assert str(workdir / "losses.png") in out


def test_a_run_goes_on_and_fills_in_what_it_is_given(written):
    _, arguments, _ = written
    code, out, err = told(*arguments, "--mode=fill", "--text=of ___ cats")
    assert code == 0, err
    assert "of ___ cats" in out
    longer = [x for x in arguments if "steps" not in x]
    assert told(*longer, "--config.train.steps=6")[0] == 0
    code, _, err = told(*longer, "--config.train.steps=6", "--config.masking.rate=0.3")
    assert code == 2
    assert "masking.rate: 0.15 -> 0.3" in err
    code, _, err = told(*arguments, "--mode=fill", "--text=no blank")
    assert code == 2
    assert "expected a sentence with ___" in err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--config.masking.rate=0.0", "expected masking.rate in (0, 1], got 0.0"),
        ("--config.masking.random=0.3", "together at most 1"),
        ("--config.model.heads=2", "expected model.heads of at least 3, two of which look"),
        ("--config.model.norm=none", 'norm must be "pre" or "post"'),
        ("--config.data.path=nowhere.txt", "no file nowhere.txt"),
        ("--text=a ___", "--mode=train takes no --text; --mode=fill does"),
        ("--mode=fill", "nothing has been trained"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(tmp_path, argument, message):
    code, _, err = told(f"--workdir={tmp_path}", argument)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
