"""Robust statistics of repeated runs: medians, their spread, ratios with bootstrap intervals.

Two interleaved series are paired by round: a slow machine in one round slows both, so a resample
draws rounds, never single runs. Series of two sessions share nothing, so each is resampled on its
own. Fewer than five rounds give no interval: that of three would hold the truth in 76 % of the
cases only. Everything is seeded: the same runs give the same numbers. Sources: Efron and
Tibshirani, An Introduction to the Bootstrap, §13 (percentiles); Davison and Hinkley, Bootstrap
Methods and their Application, §3.8 (hierarchical data).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_RUNS = 5  # the fewest rounds that give an interval, and from which allocators are ranked

_TRIMMED = 0.2  # of the rounds, at each end
_SEED = 20260701
_RESAMPLES = 10_000
_LEVEL = 0.95  # of the intervals
_TAILS = [50 * (1 - _LEVEL), 50 * (1 + _LEVEL)]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its confidence interval, whose edges are infinite if nothing is known."""

    low: float
    value: float
    high: float

    @property
    def known(self) -> bool:
        return math.isfinite(self.high)

    def __str__(self) -> str:
        return self.shown("{:.2f}".format)

    def shown(self, digits: Callable[[float], str]) -> str:
        """The estimate with its edges, if they are known."""
        edges = f" [{digits(self.low)}, {digits(self.high)}]" if self.known else ""
        return digits(self.value) + edges


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """The means without each of the rows, and the row whose absence changes the mean most."""

    low: float
    high: float
    row: str
    without: float


def median(values: Sequence[float]) -> float:
    return float(np.median(_series(values)))


def mad(values: Sequence[float]) -> float:
    """The median absolute deviation from the median: the spread of a typical run, unscaled."""
    series = _series(values)
    return float(np.median(np.abs(series - np.median(series))))


def relative_spread(values: Sequence[float]) -> float:
    """mad / median."""
    return mad(values) / median(values)


def ratio(
    numerator: Sequence[float],
    denominator: Sequence[float],
    *,
    resamples: int = _RESAMPLES,
    seed: int = _SEED,
) -> Interval:
    """median(numerator) / median(denominator); element i of both is from round i."""
    return geometric_mean_of_ratios([(numerator, denominator)], resamples=resamples, seed=seed)


def unpaired_ratio(
    numerator: Sequence[float],
    denominator: Sequence[float],
    *,
    resamples: int = _RESAMPLES,
) -> Interval:
    """median(numerator) / median(denominator) of two sessions, of any lengths."""
    above, below = _positive(_series(numerator)), _positive(_series(denominator))
    generator = np.random.default_rng(_SEED)
    drawn_above = _medians(above, _rounds(above, resamples, generator))
    drawn_below = _medians(below, _rounds(below, resamples, generator))
    exact = np.log(np.median(above) / np.median(below))
    return _exp(exact, np.log(drawn_above / drawn_below), min(len(above), len(below)))


def ratio_of_ratios(
    after: tuple[Sequence[float], Sequence[float]],
    before: tuple[Sequence[float], Sequence[float]],
    *,
    resamples: int = _RESAMPLES,
) -> Interval:
    """How the ratio to a reference changed from one session to another. Each session is (series,
    series of the reference), paired by round. A slowdown of a whole session affects both of its
    series and cancels."""
    generator = np.random.default_rng(_SEED)
    now, drawn_now = _log_ratios(*after, resamples, generator)
    then, drawn_then = _log_ratios(*before, resamples, generator)
    return _exp(now - then, drawn_now - drawn_then, min(len(after[0]), len(before[0])))


def difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    resamples: int = _RESAMPLES,
) -> Interval:
    """median(first) - median(second); element i of both is from round i."""
    left, right = _paired(first, second)
    rounds = np.random.default_rng(_SEED).integers(len(left), size=(resamples, len(left)))
    drawn = np.median(left[rounds], axis=1) - np.median(right[rounds], axis=1)
    low, high = np.percentile(drawn, _TAILS)
    if len(left) < FEWEST_RUNS:
        low, high = -math.inf, math.inf
    return Interval(float(low), float(np.median(left) - np.median(right)), float(high))


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(_series(values)))))


def geometric_mean_of_ratios(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]],
    *,
    resamples: int = _RESAMPLES,
    seed: int = _SEED,
) -> Interval:
    """The geometric mean over rows of each row's ratio of medians. The interval covers the noise of
    the runs of these rows."""
    exact, drawn = _of_rows(rows, resamples, seed)
    return _exp(exact.mean(), drawn.mean(axis=0), min(len(above) for above, _ in rows))


def geometric_mean_of_paired_ratios(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]], *, resamples: int = _RESAMPLES
) -> Interval:
    """The geometric mean over rows of each row's ratio within a round: the mean of the logarithms
    without the fifth at each end. For differences of one percent: what a round does to both runs
    cancels before the runs are compared, and where noise is normal, a trimmed mean needs 0.7
    times as many rounds as a median. The interval covers the noise of the runs of these rows."""
    if not rows:
        raise ValueError("no rows")
    generator = np.random.default_rng(_SEED)
    exact, drawn = [], []
    for row in rows:
        above, below = map(_positive, _paired(*row))
        logs = np.log(above / below)
        exact.append(_trimmed_means(logs))
        drawn.append(_trimmed_means(logs[_rounds(logs, resamples, generator)]))
    fewest = min(len(above) for above, _ in rows)
    return _exp(float(np.mean(exact)), np.mean(drawn, axis=0), fewest)


def _trimmed_means(series: np.ndarray) -> np.ndarray:
    """Of the last axis."""
    cut = int(_TRIMMED * series.shape[-1])
    means: np.ndarray = np.sort(series)[..., cut : series.shape[-1] - cut].mean(axis=-1)
    return means


def over_rows(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]], *, resamples: int = _RESAMPLES
) -> Interval:
    """The same mean, with an interval that also covers which rows one happened to choose: a
    hierarchical bootstrap draws rows, and rounds within each row. Needs at least five rows."""
    from scipy import stats as scipy_stats  # type: ignore[import-untyped]  # slow to load

    exact, drawn = _of_rows(rows, resamples, _SEED)
    fewest = min(len(rows), *(len(above) for above, _ in rows))
    if fewest < FEWEST_RUNS:
        return _exp(exact.mean(), np.zeros(1), fewest)
    generator = np.random.default_rng(_SEED)

    def mean(chosen: np.ndarray, axis: int) -> np.ndarray:
        rounds = generator.integers(resamples, size=chosen.shape)
        means: np.ndarray = drawn[chosen, rounds].mean(axis=axis)
        return means

    found = scipy_stats.bootstrap(
        (np.arange(len(rows)),),
        mean,
        n_resamples=resamples,
        vectorized=True,
        method="percentile",
        rng=_SEED,
    )
    return _exp(exact.mean(), found.bootstrap_distribution, fewest)


def leave_one_out(ratios: Mapping[str, float]) -> LeaveOneOut | None:
    """How much the geometric mean of the rows' ratios depends on single rows; None for one row."""
    if len(ratios) < 2:
        return None
    logs = {name: math.log(value) for name, value in ratios.items()}
    whole, others = sum(logs.values()), len(logs) - 1
    means = {name: math.exp((whole - value) / others) for name, value in logs.items()}
    middle = whole / len(logs)
    row = max(logs, key=lambda name: (round(abs(logs[name] - middle), 9), abs(logs[name])))
    return LeaveOneOut(min(means.values()), max(means.values()), row, means[row])


def _of_rows(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]], resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The logarithms of the rows' ratios, and a line of resampled ones for each row."""
    if not rows:
        raise ValueError("no rows")
    generator = np.random.default_rng(seed)
    logs = [_log_ratios(*row, resamples, generator) for row in rows]
    return np.array([exact for exact, _ in logs]), np.array([drawn for _, drawn in logs])


def _log_ratios(
    numerator: Sequence[float],
    denominator: Sequence[float],
    resamples: int,
    generator: np.random.Generator,
) -> tuple[float, np.ndarray]:
    """The logarithm of the ratio of medians, and those of resampled rounds."""
    above, below = _paired(numerator, denominator)
    above, below = _positive(above), _positive(below)
    rounds = _rounds(above, resamples, generator)
    drawn = np.log(_medians(above, rounds) / _medians(below, rounds))
    return float(np.log(np.median(above) / np.median(below))), drawn


def _rounds(series: np.ndarray, resamples: int, generator: np.random.Generator) -> np.ndarray:
    return generator.integers(len(series), size=(resamples, len(series)))


def _medians(series: np.ndarray, rounds: np.ndarray) -> np.ndarray:
    medians: np.ndarray = np.median(series[rounds], axis=1)
    return medians


def _exp(value: float, drawn: np.ndarray, rounds: int) -> Interval:
    """From logarithms: the estimate, and the tails of its resamples if there are enough rounds."""
    if rounds < FEWEST_RUNS:
        return Interval(0.0, float(np.exp(value)), math.inf)
    low, high = np.exp(np.percentile(drawn, _TAILS))
    return Interval(float(low), float(np.exp(value)), float(high))


def _paired(first: Sequence[float], second: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    left, right = _series(first), _series(second)
    if len(left) != len(right):
        raise ValueError(f"not paired by round: {len(left)} and {len(right)} runs")
    return left, right


def _positive(series: np.ndarray) -> np.ndarray:
    if series.min() <= 0:
        raise ValueError("a ratio needs positive values")
    return series


def _series(values: Sequence[float]) -> np.ndarray:
    series = np.asarray(values, dtype=float)
    if series.ndim != 1 or len(series) == 0:
        raise ValueError("a series of at least one number is needed")
    return series
