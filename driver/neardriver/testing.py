"""`./near test`: builds and runs the tests of a tier or label, and reports."""

import re
import shutil
import subprocess

from neardriver import (
    building,
    ctest,
    groups,
    guest,
    ledger,
    locks,
    packages,
    paths,
    report,
    trees,
    wheels,
)
from neardriver import selection as selections
from neardriver.ctest import FAILED, PASSED, Outcome, Test
from neardriver.messages import Failure, Misuse, say
from neardriver.seconds import SECONDS
from neardriver.selection import Selection


def test(name: str, tree: str, only: str) -> int:
    """The exit status of the tests."""
    chosen = selections.restricted(selections.named(name), tree, only)
    pattern = _pattern(only)
    _prepare(chosen)
    outcomes, repeated = [], {}
    for each in chosen.trees:
        outcome, repeated[each] = _run_tree(chosen, each, pattern)
        outcomes.append(outcome)
    if not any(outcome.results or outcome.broken or repeated[outcome.tree] for outcome in outcomes):
        matching = f" that match '{only}'" if only else ""
        raise Failure(f"there are no tests of {name}{matching}")
    _show_failures(outcomes)
    if name == "programs":
        _show_programs()
    report.show(outcomes, SECONDS, chosen.limit if not only and not tree else None, repeated)
    if name == selections.DEFAULT:
        _show_left(chosen)
    say(report.skipped_line(outcomes))
    print(report.last_line(outcomes), flush=True)
    return 1 if any(each.broken or each.count(FAILED) for each in outcomes) else 0


def _pattern(only: str) -> re.Pattern[str]:
    try:
        return re.compile(only)
    except re.error as error:
        raise Misuse(f"--only: '{only}' is no regular expression: {error}") from None


def _prepare(chosen: Selection) -> None:
    """Effect: the machine has what the tests need, and what they want if possible."""
    packages.need(*chosen.needed)
    packages.want(*chosen.wanted)
    packages.add_links_to_path()
    if chosen.guest == "needed":
        guest.need()
    elif chosen.guest == "wanted":
        guest.want()
    groups.need(*chosen.groups)
    groups.want(*chosen.wanted_groups)
    if chosen.name == "programs":
        wheels.want()
        shutil.rmtree(paths.tree("release") / "programs", ignore_errors=True)


def _run_tree(chosen: Selection, tree: str, pattern: re.Pattern[str]) -> tuple[Outcome, int]:
    """Builds the tree and runs its tests; also the number of those that need not be repeated."""
    with locks.hold(tree):
        building.configure(tree, "NEAR_TESTS=ON", f"NEAR_PYTHON={paths.PYTHON}",
                           *trees.TREES[tree].definitions)
        before = ledger.of_tree(tree)
        building.compile_targets(tree, chosen.target(tree))
        found = [each for each in ctest.tests_of(tree)
                 if chosen.has(each) and pattern.search(each.name)]
        book = ledger.ledger(tree, before)
        run = _not_passed(chosen, found, book.passed())
        outcome = ctest.run(tree, run, chosen.timeout) if run else Outcome(tree, ())
        if ledger.of_tree(tree) == before:
            book.add(outcome.names(PASSED), outcome.names(FAILED))
        else:
            say(f"{tree}: sources changed while the tests ran: all of them count as not run")
    say(f"{tree}: {report.last_line([outcome])}, {report.skipped_line([outcome])}")
    if len(run) < len(found):
        say(f"{tree}: {len(found) - len(run)} tests were not repeated, which have just passed")
    return outcome, len(found) - len(run)


def _not_passed(chosen: Selection, found: list[Test], passed: set[str]) -> list[Test]:
    if chosen.name != selections.ALL:
        return found
    return [each for each in found if each.name not in passed]


def _show_failures(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if not outcome.count(FAILED):
            continue
        for name, printed in ctest.failures(paths.tree(outcome.tree)):
            say(f"{outcome.tree}: {name} failed; what it printed last:\n{printed}")


def _show_programs() -> None:
    subprocess.run([paths.PYTHON, "-B", paths.ROOT / "tests/programs/table.py",
                    paths.tree("release") / "programs", "--output", paths.BUILD / "programs.txt"],
                   check=True)


def _show_left(chosen: Selection) -> None:
    """Tests of this tier's trees that are not in the tier, by label; the other trees."""
    everything = selections.named(selections.ALL)
    left = [each for tree in chosen.trees for each in ctest.tests_of(tree)
            if everything.has(each) and not chosen.has(each)]
    others = [tree for tree in everything.trees if tree not in chosen.trees]
    report.show_left(ctest.numbers_by_label(left), others)
