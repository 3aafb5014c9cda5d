"""The end of `./near test`: what took how long, what failed, what is left to `./near test all`."""

from collections.abc import Mapping, Sequence

from neardriver.ctest import FAILED, PASSED, SKIPPED, Outcome
from neardriver.messages import clock_time, show_table
from neardriver.seconds import Seconds

_SLOWEST = 10
Rows = list[tuple[str, ...]]


def slowest(outcomes: Sequence[Outcome]) -> Rows:
    """The tests that took longest, with their tree and seconds."""
    found = [(result.seconds, result.name, outcome.tree)
             for outcome in outcomes for result in outcome.results]
    return [(name, tree, f"{seconds:.1f}")
            for seconds, name, tree in sorted(found, reverse=True)[:_SLOWEST]]


def by_tree(outcomes: Sequence[Outcome], repeated: Mapping[str, int]) -> Rows:
    """Counts of tests and cases by tree. `repeated`: tests that had passed before, not run again"""
    return [(each.tree, str(each.count(PASSED)), str(each.count(FAILED)),
             str(each.count(SKIPPED)), str(repeated.get(each.tree, 0)), f"{each.cases:,}")
            for each in outcomes]


def steps(seconds: Seconds) -> Rows:
    """The seconds of each step of each tree, and the rest: packages, checks, this driver."""
    rows = [(name, tree, f"{spent:.0f}") for name, tree, spent in seconds.steps]
    rest = seconds.total() - sum(spent for _, _, spent in seconds.steps)
    return [*rows, ("everything else", "", f"{rest:.0f}")]


def total_line(seconds: Seconds, limit: float | None) -> str:
    spent = seconds.total()
    downloads = ", ".join(f"{program} {spent:.0f} s"
                          for program, spent in sorted(seconds.downloads.items()))
    apart = f"; downloads apart: {downloads}" if downloads else ""
    if limit is None:
        return f"total {clock_time(spent)}{apart}"
    verdict = "within" if spent <= 60 * limit else "over"
    return f"total {clock_time(spent)}, {verdict} the limit of {limit:.0f} minutes{apart}"


def show(outcomes: Sequence[Outcome], seconds: Seconds, limit: float | None,
         repeated: Mapping[str, int]) -> None:
    show_table("Slowest tests", ("test", "tree", "seconds"), slowest(outcomes))
    show_table("Seconds by step", ("step", "tree", "seconds"), steps(seconds))
    heads = ("tree", "passed", "failed", "skipped", "not repeated", "cases")
    show_table("Tests", heads, by_tree(outcomes, repeated), numbers=5)
    print(total_line(seconds, limit))


def show_left(left: Mapping[str, int], trees: Sequence[str]) -> None:
    """What the default tier leaves to `./near test all`."""
    rows: Rows = [(label, str(count)) for label, count in sorted(left.items())]
    show_table("Left to ./near test all", ("label", "tests"), rows)
    print(f"trees that were not built: {' '.join(trees) or 'none'}")


def last_line(outcomes: Sequence[Outcome]) -> str:
    passed, failed = (sum(each.count(kind) for each in outcomes) for kind in (PASSED, FAILED))
    failed += sum(each.broken for each in outcomes)
    return f"{passed} passed, {failed} failed"


def skipped_line(outcomes: Sequence[Outcome]) -> str:
    skipped = sum(each.count(SKIPPED) + each.skipped_cases for each in outcomes)
    return f"{skipped} skipped, {sum(each.cases for each in outcomes)} cases"
