"""Robust statistics of repeated runs: medians, their spread, ratios with bootstrap intervals.

Two series that were interleaved are paired by round: what slowed the machine in one round slowed
both, so a resample draws rounds, never single runs. Everything is seeded: the same runs give the
same numbers. Source: Efron and Tibshirani, An Introduction to the Bootstrap, §13 (percentiles).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SEED = 20260701
_RESAMPLES = 10_000


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
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = _SEED,
) -> Interval:
    """median(numerator) / median(denominator); element i of both is from round i."""
    return geometric_mean_of_ratios(
        [(numerator, denominator)], level=level, resamples=resamples, seed=seed
    )


def difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = _SEED,
) -> Interval:
    """median(first) - median(second); element i of both is from round i."""
    left, right = _paired(first, second)
    rounds = np.random.default_rng(seed).integers(len(left), size=(resamples, len(left)))
    drawn = np.median(left[rounds], axis=1) - np.median(right[rounds], axis=1)
    low, high = np.percentile(drawn, _tails(level))
    return Interval(float(low), float(np.median(left) - np.median(right)), float(high))


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(_series(values)))))


def geometric_mean_of_ratios(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]],
    *,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = _SEED,
) -> Interval:
    """The geometric mean over rows of each row's ratio of medians.

    The interval speaks of the noise of the runs. The rows are given, not a sample of all programs,
    so they are not resampled.
    """
    if not rows:
        raise ValueError("no rows")
    generator = np.random.default_rng(seed)
    exact, drawn = 0.0, np.zeros(resamples)
    for numerator, denominator in rows:
        above, below = _paired(numerator, denominator)
        if min(above.min(), below.min()) <= 0:
            raise ValueError("a ratio needs positive values")
        exact += np.log(np.median(above) / np.median(below))
        rounds = generator.integers(len(above), size=(resamples, len(above)))
        drawn += np.log(np.median(above[rounds], axis=1) / np.median(below[rounds], axis=1))
    low, high = np.exp(np.percentile(drawn / len(rows), _tails(level)))
    return Interval(float(low), float(np.exp(exact / len(rows))), float(high))


def _tails(level: float) -> list[float]:
    return [50 * (1 - level), 50 * (1 + level)]


def _paired(first: Sequence[float], second: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    left, right = _series(first), _series(second)
    if len(left) != len(right):
        raise ValueError(f"not paired by round: {len(left)} and {len(right)} runs")
    return left, right


def _series(values: Sequence[float]) -> np.ndarray:
    series = np.asarray(values, dtype=float)
    if series.ndim != 1 or len(series) == 0:
        raise ValueError("a series of at least one number is needed")
    return series
