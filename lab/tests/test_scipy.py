"""The statistics equal those of scipy on series that hypothesis generates, and have their coverage.

Two bootstraps of one series differ by chance: an edge of an interval is a quantile of a number of
draws. Invariant: an edge lies between the quantiles of scipy's draws a little below and above the
nominal one; chance explains this difference. A coverage may differ by the binomial error of its
trials. If the draws have few distinct values, the quantiles leave the same margin.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats as scipy_stats

from nearlab.results import stats
from nearlab.results.stats import Interval

RESAMPLES = 10_000  # the number that nearlab uses
TAIL = 0.025
# Between two quantiles of so many draws: 4.5 standard errors, sqrt(2 TAIL (1 - TAIL) / RESAMPLES).
CHANCE = 0.01
TRIALS = 600

times = some.floats(1e-6, 1e6)
series = some.lists(times, min_size=1, max_size=30)
seeds = some.integers(0, 2**32 - 1)
lengths = some.integers(5, 25)


def noisy(generator: np.random.Generator, count: int, mean: float = 1) -> np.ndarray:
    return mean * np.exp(generator.normal(0, 0.1, count))


@given(series)
def test_medians_and_deviations_are_those_of_scipy(values):
    deviation = scipy_stats.median_abs_deviation(values)
    middle = scipy_stats.scoreatpercentile(values, 50)
    assert stats.median(values) == pytest.approx(middle)
    assert stats.mad(values) == pytest.approx(deviation)
    assert stats.relative_spread(values) == pytest.approx(deviation / middle)


@given(series)
def test_geometric_means_are_those_of_scipy(values):
    assert stats.geometric_mean(values) == pytest.approx(scipy_stats.gmean(values))


def ratio(first, second, axis=-1):
    return np.median(first, axis=axis) / np.median(second, axis=axis)


def difference(first, second, axis=-1):
    return np.median(first, axis=axis) - np.median(second, axis=axis)


def drawn_by_scipy(statistic: Callable, data: tuple, *, paired: bool) -> np.ndarray:
    return scipy_stats.bootstrap(
        data,
        statistic,
        paired=paired,
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        rng=1,
    ).bootstrap_distribution


def has_edges_of(found: Interval, drawn: np.ndarray) -> bool:
    low_from, low_to, high_from, high_to = np.quantile(
        drawn, [TAIL - CHANCE, TAIL + CHANCE, 1 - TAIL - CHANCE, 1 - TAIL + CHANCE]
    )
    rounding = 1e-9
    return (
        low_from - rounding <= found.low <= low_to + rounding
        and high_from - rounding <= found.high <= high_to + rounding
    )


@settings(max_examples=15)
@given(seeds, lengths)
def test_intervals_of_paired_series_are_those_of_scipy(seed, count):
    generator = np.random.default_rng(seed)
    data = noisy(generator, count), noisy(generator, count, mean=2)
    drawn = drawn_by_scipy(ratio, data, paired=True)
    assert has_edges_of(stats.ratio(*data), drawn)
    assert has_edges_of(stats.difference(*data), drawn_by_scipy(difference, data, paired=True))


@settings(max_examples=15)
@given(seeds, lengths, lengths)
def test_intervals_of_two_sessions_are_those_of_scipy(seed, first, second):
    generator = np.random.default_rng(seed)
    data = noisy(generator, first), noisy(generator, second, mean=2)
    drawn = drawn_by_scipy(ratio, data, paired=False)
    assert has_edges_of(stats.unpaired_ratio(*data), drawn)


@settings(max_examples=15)
@given(seeds, lengths, lengths)
def test_intervals_against_a_reference_are_those_of_scipy(seed, first, second):
    """Scipy has no pairs within two samples: each session is drawn alone, then they are divided."""
    generator = np.random.default_rng(seed)
    after, before = (
        (noisy(generator, count, mean=2), noisy(generator, count)) for count in (first, second)
    )
    now, then = (drawn_by_scipy(ratio, session, paired=True) for session in (after, before))
    generator.shuffle(then)
    assert has_edges_of(stats.ratio_of_ratios(after, before), now / then)


@settings(max_examples=10)
@given(seeds, some.integers(2, 4))
def test_intervals_of_a_mean_over_rows_are_those_of_scipy(seed, count):
    generator = np.random.default_rng(seed)
    rows = [(noisy(generator, 9), noisy(generator, 9)) for _ in range(count)]
    drawn = [drawn_by_scipy(ratio, row, paired=True) for row in rows]
    for values in drawn:
        generator.shuffle(values)  # rows are drawn independently
    assert has_edges_of(stats.geometric_mean_of_ratios(rows), scipy_stats.gmean(drawn))


def shared(generator: np.random.Generator, rounds: int) -> Interval:
    slow = noisy(generator, rounds)  # a delay common to both in a round
    return stats.ratio(
        slow * noisy(generator, rounds, 2), slow * noisy(generator, rounds), resamples=500
    )


def apart(generator: np.random.Generator, rounds: int) -> Interval:
    sides = noisy(generator, rounds, 2), noisy(generator, rounds + 4)
    return stats.unpaired_ratio(*sides, resamples=500)


def referred(generator: np.random.Generator, rounds: int) -> Interval:
    after = noisy(generator, rounds, 6), noisy(generator, rounds, 3)
    before = noisy(generator, rounds), noisy(generator, rounds)
    return stats.ratio_of_ratios(after, before, resamples=500)


def away(generator: np.random.Generator, rounds: int) -> Interval:
    sides = noisy(generator, rounds, 3), noisy(generator, rounds, 1)
    return stats.difference(*sides, resamples=500)


def test_intervals_over_rows_hold_the_mean_of_all_programs():
    """Rows are drawn from programs whose ratios have the geometric mean 2; each row has noise."""
    generator, held = np.random.default_rng(20), 0
    for _ in range(100):
        ratios = 2 * np.exp(generator.normal(0, 0.5, 20))
        rows = [(noisy(generator, 5, ratio), noisy(generator, 5)) for ratio in ratios]
        found = stats.over_rows(rows, resamples=300)
        held += found.low <= 2 <= found.high
    assert held >= 87, "a percentile bootstrap of twenty rows covers a little less than it says"


@pytest.mark.parametrize("rounds", [5, 9, 15])
@pytest.mark.parametrize("measure", [shared, apart, referred, away])
def test_an_interval_holds_the_truth_about_as_often_as_it_says(measure, rounds):
    """The truth is 2. Few rounds may miss a little more; medians of many cover it more often."""
    generator = np.random.default_rng(rounds)
    found = [measure(generator, rounds) for _ in range(TRIALS)]
    part = sum(interval.low <= 2 <= interval.high for interval in found) / TRIALS
    assert 0.92 <= part <= 0.995
