"""Robust statistics of repeated runs: medians, their spread, ratios with bootstrap intervals.

Two interleaved series are paired by round: a slow machine in one round slows both, so a resample
draws rounds, never single runs. Series of two sessions share nothing, so each is resampled on its
own. Everything is seeded: the same runs give the same numbers. Source: Efron
and Tibshirani, An Introduction to the Bootstrap, §13 (percentiles).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SEED = 20260701
_RESAMPLES = 10_000
_LEVEL = 0.95  # of the intervals
_TAILS = [50 * (1 - _LEVEL), 50 * (1 + _LEVEL)]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its confidence interval."""

    low: float
    value: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


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
    return _exp(exact, np.log(drawn_above / drawn_below))


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
    return _exp(now - then, drawn_now - drawn_then)


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
    the runs. The rows are no sample of all programs, so they are not resampled."""
    if not rows:
        raise ValueError("no rows")
    generator = np.random.default_rng(seed)
    logs = [_log_ratios(*row, resamples, generator) for row in rows]
    exact = sum(value for value, _ in logs)
    drawn = sum((values for _, values in logs), np.zeros(resamples))
    return _exp(exact / len(rows), drawn / len(rows))


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


def _exp(value: float, drawn: np.ndarray) -> Interval:
    """From logarithms: the estimate, and the tails of its resamples."""
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
