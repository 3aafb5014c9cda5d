"""What a sweep should reach, and whether it does.

Shares of points are judged by the lower edge of each point's interval, means by the upper edge of
theirs. Invariant: every target names the number of points that it judged; with none of them, or
with fewer than five rounds, it is not judged, never reached.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nearlab.results import stats
from nearlab.results.record import Cell, Record, RecordError
from nearlab.results.stats import FEWEST_RUNS, Interval
from nearlab.sweeps.options import option
from nearlab.sweeps.points import METRICS, Kind, Point, paired, peers_of, points

FULL_KIB = 65536  # live bytes from which the cost of a byte is judged
PER_BYTE = 1.125
_ROUNDED = 16  # bytes: below _SMALLEST a block costs its size rounded up to them
_SMALLEST = 129
_LONG_REST_MS, _MANY_IDLE = 10_000, 200
_Mean = tuple[Interval, int]  # a geometric mean, and of how many points


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target. `value` is the number that is judged, `reached` None if it is not judged."""

    target: str
    value: float | None
    found: str
    points: int
    reached: bool | None
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Sweep:
    """The points of a result, by what they measure."""

    record: Record
    subject: str
    time: list[Point]
    memory: list[Point]  # at the peak, and after a rest
    rounds: int  # the fewest that a point has

    @classmethod
    def of(cls, record: Record, subject: str) -> "Sweep":
        time = points(record, subject, "time")
        memory = [*points(record, subject, "memory"), *points(record, subject, "rest")]
        every = [one for one in (*time, *memory) if one.ratio is not None]
        rounds = min((_rounds(record, subject, one) for one in every), default=0)
        return cls(record, subject, time, memory, rounds)

    @classmethod
    def with_points(cls, record: Record, subject: str) -> "Sweep":
        """As `of`. Raises RecordError if nothing in the result can be judged."""
        sweep = cls.of(record, subject)
        if not sweep.time or not sweep.memory:
            raise RecordError(f"{record.path}: no sweep: no run of a peer has a time and a heap")
        return sweep

    @property
    def judged_memory(self) -> list[Point]:
        return [one for one in self.memory if not one.is_small]


def _rounds(record: Record, subject: str, one: Point) -> int:
    return len(paired(record, one.cell.name, subject, one.peer, one.kind)[0])


def verdicts(sweep: Sweep) -> list[Verdict]:
    """All targets, in the order in which they are shown."""
    time, memory = sweep.time, sweep.judged_memory
    found = [
        _share("time at most 1.10 of the best peer's", time, 0.90, lambda one: one.at_most(1.10)),
        _share("time at most 1.25 of the best peer's", time, 0.99, lambda one: one.at_most(1.25)),
        _share("fastest", time, 0.60, lambda one: one.is_best),
        _single_peer(sweep),
        _share(
            "memory at most 1.15 of the smallest peer's", memory, 0.90, lambda p: p.at_most(1.15)
        ),
        _mean("memory beside the smallest peer's, mean", sweep, memory, 1.08),
        _per_byte(sweep),
        *_rests(sweep),
        *_idle(sweep),
    ]
    if sweep.rounds >= FEWEST_RUNS:
        return found
    return [
        Verdict(one.target, one.value, one.found, one.points, None, one.more_is_better)
        for one in found
    ]


def _share(
    target: str, chosen: Sequence[Point], least: float, is_good: Callable[[Point], bool]
) -> Verdict:
    named = f"{target}: {least:.0%} of the points"
    if not chosen:
        return Verdict(named, None, "no point", 0, None, True)
    good = sum(map(is_good, chosen))
    share = good / len(chosen)
    return Verdict(named, share, f"{share:.1%}", len(chosen), share >= least, True)


def _pairs(
    record: Record, subject: str, found: Iterable[tuple[Cell, Kind, str]]
) -> list[tuple[list[float], list[float]]]:
    """The series of the subject and of a peer in cells, paired by round."""
    pairs = (paired(record, cell.name, subject, peer, kind) for cell, kind, peer in found)
    return [pair for pair in pairs if pair[0]]


def _geometric_mean(sweep: Sweep, found: Iterable[tuple[Cell, Kind, str]]) -> _Mean | None:
    pairs = _pairs(sweep.record, sweep.subject, found)
    if not pairs:
        return None
    return stats.geometric_mean_of_ratios(pairs, resamples=2000), len(pairs)


def _judged(target: str, found: _Mean | None, most: float, peer: str = "") -> Verdict:
    named = f"{target}: at most {most:.2f}"
    if found is None:
        return Verdict(named, None, "no point", 0, None)
    mean, count = found
    edge = mean.high if mean.known else mean.value
    return Verdict(named, mean.value, f"{mean}{peer}", count, edge <= most)


def _single_peer(sweep: Sweep) -> Verdict:
    """Over all points, against the one peer beside which the subject stands worst."""
    cells = [one.cell for one in sweep.time]
    means = {}
    for peer in peers_of(sweep.record, sweep.subject):
        found = _geometric_mean(sweep, [(cell, "time", peer) for cell in cells])
        if found is not None:
            means[peer] = found
    worst = max(means, key=lambda name: means[name][0].value, default="")
    return _judged(
        "time beside the best single peer's, mean", means.get(worst), 0.85, f" of {worst}"
    )


def _mean(target: str, sweep: Sweep, chosen: Sequence[Point], most: float) -> Verdict:
    found = _geometric_mean(sweep, [(one.cell, one.kind, one.peer) for one in chosen])
    return _judged(target, found, most)


def cost_of_a_byte(sweep: Sweep, cell: Cell) -> float | None:
    """The heap after the fill for each byte asked for; blocks of one size below 129 bytes count as
    rounded up to 16. None if the cell holds less than 64 MiB or was not measured."""
    series = [
        list(sweep.record.series(cell.name, sweep.subject, key).values())
        for key in ("heap_full_kib", "asked_kib")
    ]
    if not all(series) or stats.median(series[1]) < FULL_KIB:
        return None
    asked, size = stats.median(series[1]), option(cell.argv, "size")
    if option(cell.argv, "sizes", "1") == "1" and size.isdecimal() and int(size) < _SMALLEST:
        asked *= -(-int(size) // _ROUNDED) * _ROUNDED / int(size)
    return stats.median(series[0]) / asked


def _per_byte(sweep: Sweep) -> Verdict:
    costs = {cell.name: cost_of_a_byte(sweep, cell) for cell in sweep.record.cells}
    known = {name: cost for name, cost in costs.items() if cost is not None}
    target = f"memory for a byte asked for, from 64 MiB on: at most {PER_BYTE} everywhere"
    if not known:
        return Verdict(target, None, "no point", 0, None)
    worst = max(known, key=lambda name: known[name])
    above = sum(cost > PER_BYTE for cost in known.values())
    found = f"{known[worst]:.2f} ({worst}); {above} points are above"
    return Verdict(target, known[worst], found, len(known), above == 0)


def _rests(sweep: Sweep) -> list[Verdict]:
    """Ten seconds after most blocks were freed: the heap beside the pages with a live block."""
    found = []
    for cell in sweep.record.cells:
        settle, free = (int(option(cell.argv, name, "0")) for name in ("settle", "free"))
        heap, pages = (
            list(sweep.record.series(cell.name, sweep.subject, key).values())
            for key in (METRICS["rest"], "kept_pages_kib")
        )
        if settle >= _LONG_REST_MS and free > 0 and heap and pages:
            found.append(stats.median(heap) / stats.median(pages))
    if not found:
        return []
    target = "memory 10 s after freeing, beside pages with a live block: at most 1.10"
    return [Verdict(target, max(found), f"{max(found):.2f}", len(found), max(found) <= 1.1)]


def _idle(sweep: Sweep) -> list[Verdict]:
    """Threads that sleep, beside glibc."""
    cells = [cell for cell in sweep.record.cells if cell.x.get("idle") == _MANY_IDLE]
    if not cells:
        return []
    found = _geometric_mean(sweep, [(cell, "rest", "glibc") for cell in cells])
    return [_judged(f"memory with {_MANY_IDLE} idle threads, beside glibc's", found, 1.30)]
