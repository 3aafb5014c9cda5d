"""CTest: the tests of a tree, runs of chosen ones, their results.

Tests are chosen here and handed to CTest by number, so that every version of CTest can leave out
the tests that have just passed.
"""

import json
import re
import subprocess
import xml.etree.ElementTree as xml
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from neardriver import building, paths
from neardriver.messages import Failure, say
from neardriver.progress import Step
from neardriver.seconds import SECONDS

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_SECONDS_PER_TEST = 4.0  # of a test without an earlier run here
_SHOWN_LINES = 40
_RESULT = re.compile(r" *(\d+)/(\d+) Test +#\d+: .*")


@dataclass(frozen=True)
class Test:
    name: str
    number: int
    labels: frozenset[str]


@dataclass(frozen=True)
class Result:
    name: str
    outcome: str
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """The results of a tree's tests, and what the tests counted themselves."""

    tree: str
    results: tuple[Result, ...]
    cases: int = 0
    skipped_cases: int = 0
    broken: bool = False  # CTest ended without a report

    def count(self, outcome: str) -> int:
        return sum(result.outcome == outcome for result in self.results)

    def names(self, outcome: str) -> set[str]:
        return {result.name for result in self.results if result.outcome == outcome}


def tests_of(preset: str) -> list[Test]:
    """All tests of a configured tree."""
    command = ["ctest", "--test-dir", str(paths.tree(preset)), "--show-only=json-v1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return parsed(done.stdout)
    except ValueError:
        raise Failure(f"ctest cannot list the tests of {preset}: {done.stderr[:200]}") from None


def parsed(text: str) -> list[Test]:
    found = []
    for number, test in enumerate(json.loads(text)["tests"], 1):
        properties = {each["name"]: each["value"] for each in test.get("properties", ())}
        found.append(Test(test["name"], number, frozenset(properties.get("LABELS", ()))))
    return found


def costs(tree: Path) -> dict[str, float]:
    """The mean seconds of each test in earlier runs of the tree."""
    try:
        lines = (tree / "Testing/Temporary/CTestCostData.txt").read_text().splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {row[0]: float(row[2]) for row in rows if len(row) == 3 and row[1] != "0"}


def run(preset: str, chosen: Sequence[Test], timeout: int) -> Outcome:
    """Runs one test more at once than there are processors, because many tests wait."""
    tree, log = paths.tree(preset), paths.log(f"test-{preset}")
    report = paths.LOGS / f"test-{preset}.xml"
    printed = tree / "Testing/Temporary/LastTest.log"
    for old in (report, printed, printed.with_name("LastTestsFailed.log")):
        old.unlink(missing_ok=True)
    jobs = building.processors() + 1
    numbers = ",".join(str(test.number) for test in chosen)
    command = [*_wrapper(preset), "ctest", "--test-dir", str(tree), f"-j{jobs}",
               "--timeout", str(timeout), "--output-on-failure", "--output-junit", str(report),
               "-I", f",0,,{numbers}"]
    known = costs(tree)
    expected = sum(known.get(test.name, _SECONDS_PER_TEST) for test in chosen) / jobs
    with (SECONDS.step("test", preset), Step(f"testing {preset}") as step,
          log.open("w", buffering=1) as file):
        step.start(expected).update(0, len(chosen))
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as ctest:
            assert ctest.stdout is not None
            for line in ctest.stdout:
                file.write(line)
                if found := _RESULT.match(line):
                    step.update(int(found[1]), int(found[2]))
                    if not re.search(r" Passed +[\d.]+ sec", line):
                        step.tell(line.rstrip())
    if not report.exists():
        say(f"{preset}: ctest ended without a report (see build/logs/test-{preset}.log)")
        return Outcome(preset, (), broken=True)
    text = printed.read_text(errors="replace") if printed.exists() else ""
    return Outcome(preset, results_of(report.read_text(errors="replace")),
                   sum_of("cases", text), sum_of("skipped", text))


def _wrapper(preset: str) -> list[str]:
    """TSan's shadow memory does not fit every randomized address layout."""
    fixed = ["setarch", "-R"]
    if preset != "tsan":
        return []
    try:
        works = subprocess.run([*fixed, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        works = False
    return fixed if works else []


def results_of(report: str) -> tuple[Result, ...]:
    """The results in a JUnit report of CTest."""
    outcomes = {"run": PASSED, "fail": FAILED}
    return tuple(Result(case.attrib["name"], outcomes.get(case.attrib["status"], SKIPPED),
                        float(case.attrib.get("time", "0")))
                 for case in xml.fromstring(report).iter("testcase"))


def sum_of(word: str, text: str) -> int:
    """The sum of the numbers that tests printed as `WORD: NUMBER`."""
    return sum(int(number) for number in re.findall(rf"^{word}: (\d+)", text, re.MULTILINE))


def failures(tree: Path) -> Iterator[tuple[str, str]]:
    """The name of each test that failed in the last run, and the end of what it printed."""
    folder = tree / "Testing/Temporary"
    try:
        failed = (folder / "LastTestsFailed.log").read_text(errors="replace").splitlines()
        printed = (folder / "LastTest.log").read_text(errors="replace")
    except OSError:
        return
    parts = printed_by(printed)
    for line in failed:
        name = line.partition(":")[2]
        yield name, "\n".join(f"  {each[:300]}" for each in parts.get(name, [])[-_SHOWN_LINES:])


def printed_by(log: str) -> dict[str, list[str]]:
    """The lines of each test in a LastTest.log."""
    parts: dict[str, list[str]] = {}
    mine: list[str] = []
    for line in log.splitlines():
        if found := re.match(r"\d+/\d+ Testing: (.*)", line):
            mine = parts.setdefault(found[1], [])
        elif line.startswith("End testing: "):
            break
        mine.append(line)
    return parts


def numbers_by_label(tests: Iterable[Test]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for test in tests:
        for label in sorted(test.labels):
            counts[label] = counts.get(label, 0) + 1
    return counts
