import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.decode.search import Beam, Sample, Specials, beam, greedy, sample
from tests.decode import toy

VOCABULARY, LENGTH, BUCKETS, ROWS = 6, 5, 31, 8
BEAM = Beam(3, 0.6, best=3)


@functools.partial(jax.jit, static_argnames=("options", "length"))
def run_beam(tables, limits, options, length=LENGTH):
    return beam(toy.step, toy.start(tables, options.size, length), limits, options, length=length)


@functools.partial(jax.jit, static_argnames=("length",))
def run_greedy(tables, limits, length=LENGTH):
    return greedy(toy.step, toy.start(tables, 1, length), limits, length=length)


@functools.partial(jax.jit, static_argnames="options")
def run_sample(tables, limits, rngs, options):
    cache = toy.start(tables, options.size, LENGTH)
    return sample(toy.step, cache, limits, rngs, options, length=LENGTH)


def tables(seed, rows=ROWS, spread=1.5):
    shape = (rows, BUCKETS, VOCABULARY)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) * spread


LIMITS = np.array([5, 4, 3, 2, 1, 5, 5, 4])


def penalised(table, tokens, alpha):
    return toy.log_probability(table, tokens) / ((5 + len(tokens)) / 6) ** alpha


def ranked(table, limit, alpha):
    found = [(penalised(table, y, alpha), y) for y in toy.every_sequence(VOCABULARY, limit)]
    return sorted(found, reverse=True)


def words(found, row, i=0):
    return tuple(found.tokens[row, i, : found.lengths[row, i]].tolist())


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_a_beam_as_wide_as_the_tree_is_exhaustive_search_to_the_nth_best(alpha):
    models = tables(0)
    wide = 3 ** (LENGTH - 1)
    found = run_beam(models, LIMITS, Beam(wide, alpha, best=4))
    for row, limit in enumerate(LIMITS):
        expected = ranked(models[row], limit, alpha)[:4]
        scores, sequences = zip(*expected)
        assert [words(found, row, i) for i in range(len(expected))] == list(sequences)
        np.testing.assert_allclose(found.scores[row, : len(expected)], scores, rtol=1e-5)
        assert (found.lengths[row, len(expected) :] == 0).all()


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_stopping_early_changes_nothing_and_the_first_end_token_does_not_stop_it(alpha):
    """Against a plain beam search in numpy that always runs to the limit."""
    models, later = tables(1, rows=32), 0
    limits = np.resize(LIMITS, 32)
    found = run_beam(models, limits, Beam(2, alpha, best=2))
    for row, limit in enumerate(limits):
        expected, first = unhurried_beam(models[row], limit, alpha)
        assert [words(found, row, i) for i in range(len(expected))] == [y for _, y in expected]
        later += expected[0][1] != first
        assert words(found, row) in {y for _, y in ranked(models[row], limit, alpha)}
    assert later > 3, "these models should reward patience, or the test shows nothing"


def unhurried_beam(table, limit, alpha, size=2, best=2):
    """The best that finished, and the one that finished first."""
    alive, finished = [()], []
    for _ in range(limit):
        finished += [(penalised(table, (*y, 2), alpha), (*y, 2)) for y in alive]
        longer = [(*y, w) for y in alive for w in range(3, VOCABULARY)]
        alive = sorted(longer, key=lambda y: -toy.log_probability(table, (*y, 2)[:-1]))[:size]
    return sorted(finished, reverse=True)[:best], finished[0][1]


def test_scores_descend_and_are_the_penalised_log_probabilities_of_the_tokens():
    models = tables(2)
    found = run_beam(models, LIMITS, BEAM)
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()
    for row in range(ROWS):
        for i in range(3):
            if found.lengths[row, i]:
                y = words(found, row, i)
                total = toy.log_probability(models[row], y)
                np.testing.assert_allclose(found.log_probabilities[row, i], total, rtol=1e-5)
                np.testing.assert_allclose(
                    found.scores[row, i], penalised(models[row], y, 0.6), rtol=1e-5
                )


def test_a_beam_of_one_follows_the_greedy_path_and_may_only_end_it_better():
    models = tables(3)
    one = run_greedy(models, LIMITS)
    narrow = run_beam(models, LIMITS, Beam(1, 0.0))
    assert (narrow.log_probabilities >= one.log_probabilities - 1e-6).all()
    for row in range(ROWS):
        a, b = words(one, row)[:-1], words(narrow, row)[:-1]
        assert a[: len(b)] == b[: len(a)]
        total = toy.log_probability(models[row], words(one, row))
        np.testing.assert_allclose(one.log_probabilities[row, 0], total, rtol=1e-5)


def test_greedy_takes_the_most_probable_word_until_the_end_token_or_the_limit():
    models = tables(4)
    found = run_greedy(models, LIMITS)
    for row, limit in enumerate(LIMITS):
        y = []
        while 2 not in y:
            options = [(*y, w) for w in range(2, VOCABULARY)]
            best = max(options, key=lambda y: toy.log_probability(models[row], y))
            y.append(best[-1] if len(y) + 1 < limit else 2)
        assert words(found, row) == tuple(y)


def every_search(models, limits):
    rngs = jax.random.split(jax.random.key(0), ROWS)[: len(models)]
    return [
        run_greedy(models, limits),
        run_beam(models, limits, BEAM),
        run_sample(models, limits, rngs, Sample(top_k=3, top_p=0.9, size=2)),
    ]


def test_a_row_does_not_depend_on_its_company():
    models = tables(5)
    alone = every_search(models[:1], LIMITS[:1])
    together = every_search(models, LIMITS)
    stranger = every_search(np.concatenate([models[:1], tables(6)[1:]]), LIMITS[::-1] * 0 + 5)
    for a, b, c in zip(alone, together, stranger):
        for x, y, z in zip(a, b, c):
            np.testing.assert_array_equal(x[0], y[0])
            np.testing.assert_array_equal(x[0], z[0])


def test_neither_padding_nor_the_start_token_is_ever_emitted_and_every_row_ends():
    models = tables(7)
    models[:, :, :2] += 20  # the model would like nothing better
    for found in every_search(models, LIMITS):
        for row, limit in enumerate(LIMITS):
            for i in range(found.tokens.shape[1]):
                y = words(found, row, i)
                assert len(y) <= limit
                assert not y or (y[-1] == 2 and min(y) >= 2 and y.index(2) == len(y) - 1)
                assert (found.tokens[row, i, len(y) :] == 0).all()


@pytest.mark.slow
def test_a_longer_buffer_and_limits_out_of_range_change_nothing_but_the_shape():
    models = tables(8)
    short = run_beam(models, LIMITS, BEAM)
    long = run_beam(models, LIMITS, BEAM, length=9)
    np.testing.assert_array_equal(long.tokens[:, :, :LENGTH], short.tokens)
    assert not long.tokens[:, :, LENGTH:].any()
    within, beyond = run_greedy(models, LIMITS * 0 + 5), run_greedy(models, LIMITS * 0 + 99)
    np.testing.assert_array_equal(within.tokens, beyond.tokens)
    assert run_greedy(models, LIMITS * 0).tokens[:, 0, 0].tolist() == [2] * ROWS


def frequencies(models, options, draws=4000):
    rngs = jax.random.split(jax.random.key(1), draws)
    repeated = np.repeat(models[:1], draws, axis=0)
    found = run_sample(repeated, np.full(draws, 2), rngs, options)
    first = np.bincount(np.asarray(found.tokens[:, 0, 0]), minlength=VOCABULARY)
    return first / draws


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (Sample(temperature=0.5), 4),
        (Sample(top_k=2), 2),
        (Sample(top_p=1e-6), 1),
        (Sample(temperature=2.0, top_k=3, top_p=0.7), 2),
    ],
)
def test_draws_follow_the_distribution_that_the_options_describe(options, kept):
    models = np.zeros((1, BUCKETS, VOCABULARY), np.float32)
    p = np.array([0.45, 0.3, 0.15, 0.1])
    models[:, :, 2:] = np.log(p)
    models[:, :, :2] = 3.0
    expected = np.where(np.arange(4) < kept, p ** (1 / options.temperature), 0)
    observed = frequencies(models, options)
    assert observed[:2].sum() == 0
    np.testing.assert_allclose(observed[2:], expected / expected.sum(), atol=0.03)


@pytest.mark.slow
def test_draws_differ_between_hypotheses_and_repeat_with_the_key():
    models, limits = tables(9), np.full(ROWS, LENGTH)
    rngs = jax.random.split(jax.random.key(2), ROWS)
    found = run_sample(models, limits, rngs, Sample(size=4))
    again = run_sample(models, limits, rngs, Sample(size=4))
    np.testing.assert_array_equal(found.tokens, again.tokens)
    assert (np.asarray(found.tokens) != np.asarray(found.tokens[:, :1])).any()


@pytest.mark.slow
def test_other_special_ids_serve_as_well():
    """A model whose start token is its padding, 5, and whose end token is 0."""
    models = tables(10)
    specials = Specials(pad=5, bos=5, eos=0)
    cache = toy.start(models, 2, LENGTH)
    found = beam(toy.step, cache, LIMITS, Beam(2), length=LENGTH, specials=specials)
    for row in range(ROWS):
        y = words(found, row)
        assert y[-1] == 0
        assert 5 not in y


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(size=0), "size >= 1"),
        (lambda: Beam(best=0), "best >= 1"),
        (lambda: Beam(length_penalty=-1), "length_penalty from 0 to 10"),
        (lambda: Beam(length_penalty=float("nan")), "length_penalty from 0 to 10"),
        (lambda: Beam(length_penalty=1000), "length_penalty from 0 to 10"),
        (lambda: Beam(coverage_penalty=float("nan")), "coverage_penalty >= 0"),
        (lambda: Sample(temperature=float("inf")), "finite temperature > 0"),
        (lambda: Beam(coverage_penalty=-1), "coverage_penalty >= 0"),
        (
            lambda: beam(
                toy.step, toy.start(tables(0), 2, 3), LIMITS, Beam(2, 0, 1, 0.5), length=3
            ),
            "needs a cache that has `coverage",
        ),
        (lambda: Sample(temperature=0), "greedy"),
        (lambda: Sample(size=0), "size >= 1"),
        (lambda: Sample(top_k=0), "top_k >= 1"),
        (lambda: Sample(top_p=1.5), "0 < top_p <= 1"),
        (lambda: greedy(toy.step, None, np.ones(3), length=3), "one integer for each row"),
        (lambda: greedy(toy.step, None, np.ones(3, int), length=0), "length >= 1"),
        (
            lambda: greedy(lambda tokens, _: (jnp.ones((3, 7)), _), 0, np.ones(3, int), length=3),
            "logits b k v = 3 1 v, got",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()
