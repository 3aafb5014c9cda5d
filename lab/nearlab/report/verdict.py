"""The first words of a report: where the subject wins and where it loses, computed from the runs.

Invariant: every number comes from the analysis with its interval; with too few runs there is no
verdict, and the text says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nearlab.report.analysis import MEMORY, TIME, Analysis, Duel, Standing
from nearlab.report.style import ratio
from nearlab.results.record import LIMIT, ORIGINS
from nearlab.results.stats import FEWEST_RUNS, Interval

_LISTED = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence, and the cells with the widest margins."""

    sentence: str
    wins: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()


def verdict(analysis: Analysis) -> Verdict:
    if not analysis.ranked:
        return Verdict(
            f"No verdict: every cell has fewer than {FEWEST_RUNS} counted runs, and from so few "
            "nothing is ranked. The figures show what was measured."
        )
    subject = analysis.subject
    if subject is not None and subject not in (LIMIT, analysis.base):
        return _of_subject(analysis, subject)
    groups = [_of_all(analysis, origin) for origin in analysis.origins]
    return Verdict(" ".join(groups) or "No verdict: the allocators completed no cell in common.")


def _of_all(analysis: Analysis, origin: str) -> str:
    """Returns the verdict on a group without a subject: which allocators need the least."""
    words = []
    for metric in (TIME, MEMORY):
        first = [one for one in analysis.standings(origin) if _rank(one, metric) == 1]
        means = [found for one in first if (found := _mean(one, metric))]
        if means:
            names = ", ".join(one.allocator for one in first)
            best = min(means, key=lambda mean: mean.value)
            words.append(f"least {_NOUNS[metric]}: {names} ({_interval(best)} of {analysis.base})")
    least = "; ".join(words)
    return (
        f"{least[:1].upper()}{least[1:]}; geometric means over {_within(analysis, origin)} that "
        f"all completed ({ORIGINS[origin]})."
    )


_NOUNS = {TIME: "time", MEMORY: "memory"}


def _rank(standing: Standing, metric: str) -> int | None:
    return standing.time_rank if metric == TIME else standing.memory_rank


def _mean(standing: Standing, metric: str) -> Interval | None:
    return standing.time if metric == TIME else standing.memory


def _of_subject(analysis: Analysis, subject: str) -> Verdict:
    wins, losses = [], []
    words = []
    for metric, noun, adjective in ((TIME, "time", "fastest"), (MEMORY, "memory", "smallest")):
        duels = analysis.duels(metric)
        ahead = sorted((d for d in duels if d.ratio.high < 1), key=lambda d: d.ratio.value)
        behind = sorted((d for d in duels if d.ratio.low > 1), key=lambda d: -d.ratio.value)
        wins += [_line(duel, noun) for duel in ahead[:_LISTED]]
        losses += [_line(duel, noun) for duel in behind[:_LISTED]]
        words.append(_score(adjective, duels, ahead, behind))
    cells = analysis.record.cells
    failed = sum(analysis.record.failed(cell.name, subject) for cell in cells)
    sentence = (
        f"{_means(analysis, subject)}; cell by cell it is {', and '.join(words)}. "
        f"It failed in {failed or 'none'} of {len(cells)} cells."
    )
    return Verdict(sentence, tuple(wins), tuple(losses))


def _means(analysis: Analysis, subject: str) -> str:
    if subject not in analysis.compared:
        return f"{subject} {analysis.completion(subject)} cells: too few for a mean"
    found = [
        _of_group(analysis, origin, standing)
        for origin in analysis.origins
        for standing in analysis.standings(origin)
        if standing.allocator == subject
    ]
    return f"{subject} {'; '.join(found) or 'has no mean, for no cell in common is sensitive'}"


def _of_group(analysis: Analysis, origin: str, standing: Standing) -> str:
    base = f"{analysis.base}’s"
    parts = [
        f"{_interval(mean)} of {base} {noun}"
        for mean, noun in ((standing.time, "time"), (standing.memory, "memory"))
        if mean
    ]
    return (
        f"takes {' and '.join(parts)} over the {_within(analysis, origin)} that all completed "
        f"({ORIGINS[origin]}), {_place(analysis, origin, standing)}"
    )


def told(analysis: Analysis, origin: str) -> str:
    """Returns the number of cells in the means, in words; time and memory may differ."""
    more = for_memory(analysis, origin)
    return analysis.told(analysis.common(TIME, origin)) + (f", {more}" if more else "")


def _within(analysis: Analysis, origin: str) -> str:
    """Returns `told` for the middle of a sentence."""
    return told(analysis, origin) + ("," if for_memory(analysis, origin) else "")


def for_memory(analysis: Analysis, origin: str) -> str:
    """Returns how the cells of the means of memory differ from those of time; "" if they do not."""
    time, memory = analysis.common(TIME, origin), analysis.common(MEMORY, origin)
    sides = {
        "with": [cell for cell in memory if cell not in time],
        "without": [cell for cell in time if cell not in memory],
    }
    words = [f"{side} {_named(cells)}" for side, cells in sides.items() if cells]
    return f"for memory {len(memory)} {' and '.join(words)}" if words else ""


def _named(cells: Sequence[str]) -> str:
    return ", ".join(cells) if len(cells) <= _LISTED else f"{len(cells)} others"


def _place(analysis: Analysis, origin: str, standing: Standing) -> str:
    rivals = [one for one in analysis.standings(origin) if one.allocator != LIMIT]
    found = [
        f"{_ordinal(rank, [_rank(one, metric) for one in rivals])} in {noun}"
        for metric, noun in _NOUNS.items()
        if (rank := _rank(standing, metric)) is not None
    ]
    return f"of {len(rivals)} allocators {' and '.join(found)}"


def _ordinal(rank: int, ranks: Sequence[int | None]) -> str:
    teens = 11 <= rank % 100 <= 13
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{'shared ' if ranks.count(rank) > 1 else ''}{rank}{ending}"


def _score(adjective: str, duels: list[Duel], ahead: list[Duel], behind: list[Duel]) -> str:
    level = len(duels) - len(ahead) - len(behind)
    return (
        f"the {adjective} in {len(ahead)} of {len(duels)}, level with the best in {level} "
        f"and behind in {len(behind)}"
    )


def _line(duel: Duel, noun: str) -> str:
    return f"{duel.cell}: {_interval(duel.ratio)} of the {noun} of {duel.rival}"


def _interval(found: Interval) -> str:
    return found.shown(ratio)
