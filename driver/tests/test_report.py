"""The report at the end of `./near test`."""

import pytest

from neardriver import report
from neardriver.ctest import FAILED, PASSED, SKIPPED, Outcome, Result
from neardriver.seconds import Seconds

RESULTS = tuple(Result(f"t{number}", PASSED, float(number)) for number in range(12))
OUTCOMES = [
    Outcome("release", (*RESULTS, Result("bad", FAILED, 99.25)), cases=1200),
    Outcome("asan", (Result("none", SKIPPED, 0.0), Result("slow", PASSED, 10.5)), 34, 5),
]


@pytest.fixture
def seconds(monkeypatch) -> Seconds:
    """Five minutes, of which 40 s were a download."""
    monkeypatch.setattr("neardriver.seconds.time.monotonic", lambda: 1300.0)
    return Seconds(1000.0, [("configure", "release", 12.0), ("build", "release", 150.4),
                            ("test", "asan", 60.0)], {"pip": 10.0, "apt": 30.0})


def test_the_ten_slowest_tests_of_all_trees_come_first():
    rows = report.slowest(OUTCOMES)
    assert len(rows) == 10
    assert rows[:3] == [("bad", "release", "99.2"), ("t11", "release", "11.0"),
                        ("slow", "asan", "10.5")]


def test_downloads_are_apart_and_not_counted(seconds):
    assert seconds.total() == 260
    assert report.steps(seconds)[-1] == ("everything else", "", "38")
    assert report.total_line(seconds, 10) == (
        "total 4:20, within the limit of 10 minutes; downloads apart: apt 30 s, pip 10 s")
    assert report.total_line(seconds, 4).startswith("total 4:20, over the limit of 4 minutes")
    assert "limit" not in report.total_line(seconds, None)


def test_counts_are_those_of_each_tree():
    assert report.by_tree(OUTCOMES, {"asan": 7}) == [
        ("release", "12", "1", "0", "0", "1,200"), ("asan", "1", "0", "1", "7", "34")]
    assert report.last_line(OUTCOMES) == "13 passed, 1 failed"
    assert report.skipped_line(OUTCOMES) == "6 skipped, 1234 cases"


def test_a_tree_without_a_report_is_a_failure():
    assert report.last_line([Outcome("tsan", (), broken=True)]) == "0 passed, 1 failed"


def test_everything_is_shown(seconds, capsys):
    report.show(OUTCOMES, seconds, 10, {"asan": 7})
    report.show_left({"lab": 40, "core": 300}, ["asan", "tsan"])
    out = capsys.readouterr().out
    for words in (["Slowest tests"], ["bad", "release", "99.2"], ["build", "release", "150"],
                  ["asan", "1", "0", "1", "7", "34"], ["total 4:20"], ["core", "300"],
                  ["trees that were not built: asan tsan"]):
        assert any(all(word in line for word in words) for line in out.splitlines()), words
    assert "\x1b" not in out, "colours are for terminals"
