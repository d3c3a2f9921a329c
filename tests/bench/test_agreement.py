"""Numbers of critics, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interleave.bench.statistics import fisher_mean, group_spearman, ranks, spearman, tanh_mean, tie_accuracy

LABELS = [1, -1, 0] * 3
FIRST = [0.9, -0.7, 0.1, 0.8, -0.6, 0.2, 0.7, -0.5, 0.3]
SECOND = [0.1, -0.8, 0.5, 0.5, -0.3, 0.3, 0.4, -0.4, 0.4]


def test_ties_share_the_mean_of_their_ranks() -> None:
    assert ranks([3, 1, 3, 2]).tolist() == [3.5, 1, 3.5, 2]


def test_float_noise_is_a_tie_unless_it_is_asked_for() -> None:
    noisy = [0.1 + 0.2, 0.3, 0.0]
    assert ranks(noisy).tolist() == [2.5, 2.5, 1]
    assert ranks([0.3 + 1e-8, 0.3, 0.0]).tolist() == [3, 2, 1]


def test_spearman_by_hand() -> None:
    assert spearman([1, 2, 3], [10, 20, 21]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert spearman([1, 2, 2], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2)


def test_what_has_no_correlation_has_no_number() -> None:
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))
    assert math.isnan(spearman([1], [1]))
    assert math.isnan(spearman([], []))
    with pytest.raises(ValueError, match="3 values"):
        spearman([1, 2, 3], [1, 2])


def test_groups_have_correlations_of_their_own() -> None:
    random = np.random.default_rng(0)
    groups = random.integers(5, size=300)
    ours, theirs = random.integers(4, size=300) / 3, random.integers(6, size=300) / 5
    found = group_spearman(ours, theirs, groups, 6)
    for place in range(5):
        rows = groups == place
        assert ranks(ours, groups)[rows].tolist() == ranks(ours[rows]).tolist()
        assert found[place] == pytest.approx(spearman(ours[rows], theirs[rows]))
    assert math.isnan(found[5])


def test_means_of_correlations() -> None:
    assert fisher_mean([0.5, 0.5]) == pytest.approx(0.5)
    assert fisher_mean([0.9, 0.1, float("nan")]) == pytest.approx(
        math.tanh((math.atanh(0.9) + math.atanh(0.1)) / 2)
    )
    assert tanh_mean([0.9, 0.1, float("nan")]) == pytest.approx(math.tanh(0.5))
    assert math.isnan(fisher_mean([]))
    assert math.isnan(tanh_mean([float("nan")]))
    assert fisher_mean([1.0, -1.0]) == pytest.approx(0)


def test_a_tie_is_a_wrong_pair() -> None:
    assert tie_accuracy([1] * 4, [2, 1, 1, 3], [1, 2, 1, 0]).without_ties == 0.5
    assert math.isnan(tie_accuracy([], [], []).without_ties)


def test_accuracy_with_and_without_ties() -> None:
    found = tie_accuracy(LABELS, FIRST, SECOND)
    assert found.with_ties == pytest.approx(2 / 3)
    assert found.without_ties == pytest.approx(5 / 6)
    assert found.epsilon == pytest.approx(0.1)


def test_an_epsilon_that_is_given_is_kept() -> None:
    found = tie_accuracy(LABELS, FIRST, SECOND, epsilon=0)
    assert found.with_ties == pytest.approx(5 / 9)
    assert found.epsilon == 0
    with pytest.raises(ValueError, match="labels"):
        tie_accuracy([1], FIRST, SECOND)
    assert math.isnan(tie_accuracy([], [], []).with_ties)
    assert math.isnan(tie_accuracy([0], [1], [1]).without_ties)
