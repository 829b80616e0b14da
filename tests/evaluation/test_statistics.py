"""The interquartile mean and its interval are rliable's, written here as plain loops."""

import numpy as np
import pytest

from eqgrid_lab.show import (
    align_curves,
    bootstrap_interval,
    interquartile_mean,
)


def naive_interquartile_mean(scores):
    ordered = sorted(scores)
    cut = int(0.25 * len(ordered))
    middle = ordered[cut : len(ordered) - cut]
    return sum(middle) / len(middle)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 8, 11])
def test_interquartile_mean(number):
    scores = np.random.default_rng(number).normal(size=(3, number))
    means = [naive_interquartile_mean(row) for row in scores]
    np.testing.assert_allclose(interquartile_mean(scores), means, rtol=1e-12)


def naive_interval(scores, repeats=20_000):
    """rliable's `StratifiedBootstrap` of one task: runs are drawn with replacement."""
    generator = np.random.default_rng(7)
    means = [
        naive_interquartile_mean(scores[generator.integers(len(scores), size=len(scores))])
        for _ in range(repeats)
    ]
    return np.percentile(means, [2.5, 97.5])


def test_interval():
    scores = np.random.default_rng(0).normal(100, 20, size=(2, 10))
    low, high = bootstrap_interval(scores)
    for i in range(2):
        expected = naive_interval(scores[i])
        np.testing.assert_allclose([low[i], high[i]], expected, atol=1.5)
        assert low[i] < interquartile_mean(scores[i]) < high[i]


def test_equal_scores_and_one_run():
    scores = np.random.default_rng(0).normal(size=6)
    assert bootstrap_interval(scores) == bootstrap_interval(scores)
    assert bootstrap_interval(np.full(4, 3.0)) == (3, 3)
    np.testing.assert_array_equal(bootstrap_interval(np.array([[1.0], [2.0]])), [[1, 2], [1, 2]])


def test_curves_are_compared_where_all_of_them_have_a_point():
    steps, scores = align_curves([{1: 5.0, 3: 6.0, 2: 7.0}, {3: 1.0, 4: 2.0, 1: 3.0}])
    assert steps == [1, 3]
    np.testing.assert_array_equal(scores, [[5.0, 3.0], [6.0, 1.0]])
    assert align_curves([{1: 5.0}, {2: 5.0}])[1].shape == (0, 2)
