"""The meaning of the statistics: pairing, seeds, intervals, refusals. Proof: test_scipy.py."""

import math

import numpy as np
import pytest

from nearlab.results import stats

FIRST = [1.02, 1.10, 0.98, 1.05, 1.00, 1.31, 0.99, 1.03, 1.01]
SECOND = [2.01, 2.22, 1.95, 2.12, 2.00, 2.58, 2.02, 2.05, 1.99]


def test_median_and_mad():
    assert stats.median([3, 1, 2]) == 2 and stats.median([4, 1, 2, 3]) == 2.5
    assert stats.mad([1, 1, 2, 2, 4, 6, 9]) == 1  # the textbook example
    assert stats.relative_spread([1, 2, 3]) == 0.5


def test_ratio_of_equal_series_is_exactly_one():
    found = stats.ratio(FIRST, FIRST)
    assert (found.low, found.value, found.high) == (1, 1, 1)


def test_the_same_runs_give_the_same_interval():
    assert stats.ratio(FIRST, SECOND) == stats.ratio(FIRST, SECOND)
    assert stats.ratio(FIRST, SECOND, seed=1) != stats.ratio(FIRST, SECOND, seed=2)


def test_pairing_removes_the_noise_that_both_share():
    slow = [1, 3, 1, 3, 1, 3, 1, 3, 1]
    found = stats.ratio([2 * value for value in slow], slow)
    assert (found.low, found.high) == (2, 2)


def test_difference_has_an_interval():
    found = stats.difference([10, 12, 11, 10, 11], [1, 3, 2, 1, 2])
    assert (found.low, found.value, found.high) == (9, 9, 9)
    spread = stats.difference([9, 12, 10, 9, 11], [0] * 5)
    assert spread.low < spread.value == 10 < spread.high


def test_geometric_mean():
    assert stats.geometric_mean([1, 4]) == pytest.approx(2)
    assert stats.geometric_mean([0.5, 2]) == pytest.approx(1)


def test_geometric_mean_of_ratios_multiplies_rows():
    rows = [([2] * 5, [1] * 5), ([8] * 5, [1] * 5)]
    found = stats.geometric_mean_of_ratios(rows)
    assert (found.low, found.value, found.high) == pytest.approx((4, 4, 4))


def test_more_rows_narrow_the_interval_of_the_mean():
    one = stats.geometric_mean_of_ratios([(FIRST, [1.0] * 9)])
    many = stats.geometric_mean_of_ratios([(FIRST, [1.0] * 9)] * 16)
    assert many.value == pytest.approx(one.value)
    assert many.high - many.low < (one.high - one.low) / 2


def test_paired_ratios_multiply_rows_and_leave_out_what_is_far_away():
    rows = [([2] * 5, [1] * 5), ([8, 8, 8, 8, 800], [1] * 5)]
    found = stats.geometric_mean_of_paired_ratios(rows)
    assert found.value == pytest.approx(4) and found.low == pytest.approx(4)


def test_what_a_round_does_to_both_runs_cancels_from_paired_ratios():
    generator = np.random.default_rng(1)
    speed = np.exp(generator.normal(0, 0.3, 15))
    noise = np.exp(generator.normal(0, 0.005, 15))
    found = stats.geometric_mean_of_paired_ratios([(list(1.02 * speed * noise), list(speed))])
    assert 1.01 < found.low < 1.02 < found.high < 1.03


def test_intervals_of_paired_ratios_hold_the_truth_and_are_narrower_than_those_of_medians():
    generator = np.random.default_rng(2)
    held, narrower = 0, 0

    def runs(mean):
        return list(np.exp(generator.normal(mean, 0.05, 18)))

    for _ in range(200):
        rows = [(runs(0.01), runs(0)) for _ in range(6)]
        paired = stats.geometric_mean_of_paired_ratios(rows, resamples=1000)
        medians = stats.geometric_mean_of_ratios(rows, resamples=1000)
        held += paired.low <= math.exp(0.01) <= paired.high
        narrower += paired.high - paired.low < medians.high - medians.low
    assert held >= 180 and narrower >= 180


@pytest.mark.parametrize("first,second", [([], []), ([1], [1, 2]), ([1, 0], [1, 1]), ([-1], [1])])
def test_nonsense_is_refused(first, second):
    with pytest.raises(ValueError):
        stats.ratio(first, second)


def test_series_of_two_sessions_may_differ_in_length():
    found = stats.unpaired_ratio([2.0] * 5, [1.0] * 9)
    assert (found.low, found.value, found.high) == (2, 2, 2)
    with pytest.raises(ValueError):
        stats.unpaired_ratio([1.0], [0.0])


def test_sessions_are_not_paired_with_each_other():
    slow = [1.0, 3.0] * 5
    found = stats.unpaired_ratio(slow, slow)
    assert found.low < 0.7 and found.value == 1 and found.high > 1.4
    found = stats.ratio_of_ratios((slow, slow), (slow, slow))
    assert (found.low, found.value, found.high) == (1, 1, 1)


def test_the_reference_cancels_what_slowed_a_whole_session():
    found = stats.ratio_of_ratios(([6.0] * 5, [3.0] * 5), ([1.0] * 9, [1.0] * 9))
    assert (found.low, found.value, found.high) == pytest.approx((2, 2, 2))


def test_no_rows_have_no_mean():
    with pytest.raises(ValueError):
        stats.geometric_mean_of_ratios([])
    with pytest.raises(ValueError):
        stats.geometric_mean_of_paired_ratios([])


def test_an_interval_prints_as_value_and_edges():
    assert str(stats.Interval(0.5, 1, math.pi)) == "1.00 [0.50, 3.14]"


def test_fewer_than_five_rounds_give_no_interval():
    few, enough = ([2.0, 2.1, 2.2, 2.3], [1.0] * 4), ([2.0, 2.1, 2.2, 2.3, 2.2], [1.0] * 5)
    for found in (
        stats.ratio(*few),
        stats.difference(*few),
        stats.unpaired_ratio(few[0], enough[1]),
        stats.ratio_of_ratios(few, enough),
        stats.geometric_mean_of_ratios([enough, few]),
        stats.geometric_mean_of_paired_ratios([enough, few]),
        stats.over_rows([enough] * 5 + [few]),
        stats.over_rows([enough] * 4),
    ):
        assert not found.known and "[" not in str(found)
        assert found.low <= 0 < found.value < found.high, "so nothing is certain from it"
    assert stats.ratio(*enough).known and stats.over_rows([enough] * 5).known


def test_the_interval_over_rows_covers_which_rows_one_chose():
    rows = [([ratio] * 5, [1.0] * 5) for ratio in (0.2, 0.5, 1.0, 2.0, 5.0)]
    noise, rows_too = stats.geometric_mean_of_ratios(rows), stats.over_rows(rows)
    assert (noise.low, noise.high) == pytest.approx((1, 1))  # the runs have no noise
    assert rows_too.value == pytest.approx(1) and rows_too.low < 0.5 and rows_too.high > 2
    assert stats.over_rows(rows) == rows_too
    alike = stats.over_rows([([2.0] * 5, [1.0] * 5)] * 8)
    assert (alike.low, alike.high) == pytest.approx((2, 2))


def test_leaving_one_out_names_the_row_that_decides():
    found = stats.leave_one_out({"a": 1.0, "b": 1.0, "idle": 1 / 64})
    assert (found.row, found.without) == ("idle", pytest.approx(1))
    assert (found.low, found.high) == (pytest.approx(1 / 8), pytest.approx(1))
    assert stats.leave_one_out({"a": 2.0}) is None
