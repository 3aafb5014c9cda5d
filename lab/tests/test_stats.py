"""Statistics against scipy where it is installed, else against the values it gave."""

import math

import pytest

from nearlab import stats

FIRST = [1.02, 1.10, 0.98, 1.05, 1.00, 1.31, 0.99, 1.03, 1.01]
SECOND = [2.01, 2.22, 1.95, 2.12, 2.00, 2.58, 2.02, 2.05, 1.99]


def test_median_and_mad():
    assert stats.median([3, 1, 2]) == 2 and stats.median([4, 1, 2, 3]) == 2.5
    assert stats.mad([1, 1, 2, 2, 4, 6, 9]) == 1  # the textbook example
    assert stats.relative_spread([1, 2, 3]) == 0.5


def test_ratio_of_equal_series_is_exactly_one():
    found = stats.ratio(FIRST, FIRST)
    assert (found.low, found.value, found.high) == (1, 1, 1)


def test_ratio_interval_agrees_with_scipy():
    try:
        import numpy as np
        from scipy.stats import bootstrap

        def statistic(first, second, axis=-1):
            return np.median(first, axis=axis) / np.median(second, axis=axis)

        result = bootstrap(
            (FIRST, SECOND),
            statistic,
            paired=True,
            n_resamples=20_000,
            method="percentile",
            vectorized=True,
            rng=1,
        )
        low, high = result.confidence_interval
    except ImportError:
        low, high = SCIPY_RATIO
    found = stats.ratio(FIRST, SECOND)
    assert found.low == pytest.approx(low, rel=0.005)
    assert found.high == pytest.approx(high, rel=0.005)
    assert found.value == pytest.approx(1.02 / 2.02)


SCIPY_RATIO = (0.4951, 0.5098)


def test_the_same_runs_give_the_same_interval():
    assert stats.ratio(FIRST, SECOND) == stats.ratio(FIRST, SECOND)
    assert stats.ratio(FIRST, SECOND, seed=1) != stats.ratio(FIRST, SECOND, seed=2)


def test_pairing_removes_the_noise_that_both_share():
    slow = [1, 3, 1, 3, 1, 3, 1, 3, 1]
    found = stats.ratio([2 * value for value in slow], slow)
    assert (found.low, found.high) == (2, 2)


def test_difference_has_an_interval():
    found = stats.difference([10, 12, 11], [1, 3, 2])
    assert (found.low, found.value, found.high) == (9, 9, 9)
    spread = stats.difference([10, 12, 11], [1, 1, 1])
    assert spread.low < spread.value == 10 < spread.high


def test_geometric_mean():
    assert stats.geometric_mean([1, 4]) == pytest.approx(2)
    assert stats.geometric_mean([0.5, 2]) == pytest.approx(1)


def test_geometric_mean_of_ratios_multiplies_rows():
    rows = [([2, 2, 2], [1, 1, 1]), ([8, 8, 8], [1, 1, 1])]
    found = stats.geometric_mean_of_ratios(rows)
    assert (found.low, found.value, found.high) == pytest.approx((4, 4, 4))


def test_more_rows_narrow_the_interval_of_the_mean():
    one = stats.geometric_mean_of_ratios([(FIRST, [1.0] * 9)])
    many = stats.geometric_mean_of_ratios([(FIRST, [1.0] * 9)] * 16)
    assert many.value == pytest.approx(one.value)
    assert many.high - many.low < (one.high - one.low) / 2


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    import numpy as np

    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        first = generator.normal(1.0, 0.05, 15)
        second = generator.normal(2.0, 0.1, 15)
        found = stats.ratio(list(first), list(second), resamples=500)
        hits += found.low <= 0.5 <= found.high
    assert hits / 300 > 0.88


@pytest.mark.parametrize("first,second", [([], []), ([1], [1, 2]), ([1, 0], [1, 1]), ([-1], [1])])
def test_nonsense_is_refused(first, second):
    with pytest.raises(ValueError):
        stats.ratio(first, second)


def test_no_rows_have_no_mean():
    with pytest.raises(ValueError):
        stats.geometric_mean_of_ratios([])


def test_an_interval_prints_as_value_and_edges():
    assert str(stats.Interval(0.5, 1, math.pi)) == "1.00 [0.50, 3.14]"
