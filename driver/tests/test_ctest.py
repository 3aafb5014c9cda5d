"""CTest's files: its list of tests, its report, what tests printed."""

import json

from neardriver import ctest

LISTED = json.dumps({"tests": [
    {"name": "a", "properties": [{"name": "LABELS", "value": ["core", "default"]}]},
    {"name": "b", "properties": [{"name": "TIMEOUT", "value": 5.0}]},
    {"name": "c"},
]})
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="x" tests="4" failures="1" disabled="1" skipped="1">
  <testcase name="good" classname="good" time="1.5" status="run"><system-out/></testcase>
  <testcase name="bad" classname="bad" time="0.25" status="fail"><failure message=""/></testcase>
  <testcase name="none" classname="none" time="0" status="notrun"><skipped message=""/></testcase>
  <testcase name="off" classname="off" time="0" status="disabled"/>
</testsuite>"""
PRINTED = """1/2 Testing: bad
1/2 Test: bad
cases: 7
skipped: 2 of them
it broke
2/2 Testing: good
cases: 30
cases: many
<end of output>
End testing: today
default = 3 sec*proc
"""


def test_tests_have_the_numbers_that_ctest_gives_them():
    found = ctest.parsed(LISTED)
    assert [(test.name, test.number, sorted(test.labels)) for test in found] == [
        ("a", 1, ["core", "default"]), ("b", 2, []), ("c", 3, [])]
    assert ctest.numbers_by_label(found) == {"core": 1, "default": 1}


def test_results_are_those_of_the_report():
    results = ctest.results_of(REPORT)
    assert [(each.name, each.outcome, each.seconds) for each in results] == [
        ("good", "passed", 1.5), ("bad", "failed", 0.25), ("none", "skipped", 0),
        ("off", "skipped", 0)]
    outcome = ctest.Outcome("release", results)
    assert outcome.count("skipped") == 2 and outcome.names("failed") == {"bad"}


def test_cases_and_skipped_cases_are_summed():
    assert ctest.sum_of("cases", PRINTED) == 37
    assert ctest.sum_of("skipped", PRINTED) == 2
    assert ctest.sum_of("cases", "") == 0


def test_the_end_of_what_a_failed_test_printed_is_found(tmp_path):
    folder = tmp_path / "Testing/Temporary"
    folder.mkdir(parents=True)
    assert list(ctest.failures(tmp_path)) == []
    long = PRINTED.replace("it broke", "\n".join(["x" * 400] * 50 + ["it broke"]))
    (folder / "LastTest.log").write_text(long)
    (folder / "LastTestsFailed.log").write_text("12:bad\n")
    assert ctest.printed_by(PRINTED)["good"][-1] == "<end of output>"
    ((name, printed),) = ctest.failures(tmp_path)
    assert name == "bad" and printed.endswith("  it broke") and "good" not in printed
    assert len(printed.splitlines()) == 40 and max(map(len, printed.splitlines())) == 302


def test_the_seconds_of_earlier_runs_are_known(tmp_path):
    assert ctest.costs(tmp_path) == {}
    folder = tmp_path / "Testing/Temporary"
    folder.mkdir(parents=True)
    (folder / "CTestCostData.txt").write_text("a 3 1.5\nb 0 0\n---\nb\n")
    assert ctest.costs(tmp_path) == {"a": 1.5}
