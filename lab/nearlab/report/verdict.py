"""The first words of a report: where the subject wins and where it loses, computed from the runs.

Invariant: every number comes from the analysis with its interval; with too few runs there is no
verdict, and the text says so.
"""

from dataclasses import dataclass

from nearlab.report.analysis import MEMORY, TIME, Analysis, Duel, Standing
from nearlab.report.style import ratio
from nearlab.results.record import LIMIT
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
    standings = {one.allocator: one for one in analysis.standings}
    subject = analysis.subject
    if subject is not None and subject not in (LIMIT, analysis.base):
        return _of_subject(analysis, subject, standings.get(subject))
    return _of_all(analysis)


def _of_all(analysis: Analysis) -> Verdict:
    """Returns the verdict without a subject: it names the allocators that need the least."""
    real = [one for one in analysis.standings if one.time_rank is not None]
    if not real:
        return Verdict("No verdict: the allocators completed no cell in common.")
    least = min((one.memory for one in real if one.memory), key=lambda memory: memory.value)
    fastest = ", ".join(one.allocator for one in real if one.time_rank == 1)
    smallest = ", ".join(one.allocator for one in real if one.memory_rank == 1)
    return Verdict(
        f"Least time: {fastest} ({_interval(real[0].time)} of {analysis.base}); least memory: "
        f"{smallest} ({_interval(least)}); geometric means over {_told(analysis)} that all "
        "completed."
    )


def _of_subject(analysis: Analysis, subject: str, standing: Standing | None) -> Verdict:
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
        f"{_means(analysis, subject, standing)}; cell by cell it is {', and '.join(words)}. "
        f"It failed in {failed or 'none'} of {len(cells)} cells."
    )
    return Verdict(sentence, tuple(wins), tuple(losses))


def _means(analysis: Analysis, subject: str, standing: Standing | None) -> str:
    if subject not in analysis.compared:
        return f"{subject} {analysis.completion(subject)} cells: too few for a mean"
    if standing is None:
        return f"{subject} has no mean, for all completed no sensitive cell in common"
    assert standing.memory is not None, "the limit alone has none"
    return (
        f"{subject} takes {_interval(standing.time)} of {analysis.base}’s time and "
        f"{_interval(standing.memory)} of its memory over the {_told(analysis)} that all "
        f"completed, {_place(analysis, standing)}"
    )


def _told(analysis: Analysis) -> str:
    """Returns the number of cells in the means, in words; memory may have more cells than time."""
    time, memory = analysis.common(TIME), analysis.common(MEMORY)
    more = f", for memory {len(memory)}," if len(memory) > len(time) else ""
    return analysis.told(time) + more


def _place(analysis: Analysis, standing: Standing) -> str:
    rivals = [one for one in analysis.standings if one.time_rank is not None]
    time = _ordinal(standing.time_rank, [one.time_rank for one in rivals])
    memory = _ordinal(standing.memory_rank, [one.memory_rank for one in rivals])
    return f"{time} of {len(rivals)} allocators in time and {memory} in memory"


def _ordinal(rank: int | None, ranks: list[int | None]) -> str:
    assert rank is not None, "what has a place among the ranks has one"
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
