"""Changes are found, noise and drift are not; files that cannot be compared are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from typer.testing import CliRunner

import results
from nearlab import places
from nearlab.commands import application
from nearlab.compare import command as compare_command
from nearlab.compare import compare
from nearlab.compare.compare import Settings, Way
from nearlab.results.stats import Interval

THRESHOLDS = {Way.TIME: 0.05, Way.MEMORY: 0.03, Way.INSTRUCTIONS: 0.02, Way.CALLS: 0.5}
OURS, GLIBC = "nearmalloc", "glibc"
CELL = "threadtest"


def noise(seed: int, part: float = 0.01, rounds: int = 9) -> list[float]:
    return list(np.random.default_rng(seed).normal(1, part, rounds))


def measured(
    times: dict[str, list[float]], memory: float = 10_000, operations: float = 1000, **more
) -> list[dict]:
    """The runs of one cell: the rounds, and a warm-up that would change the result if counted."""
    records = []
    for by, seconds in times.items():
        records.append(results.run(CELL, by, 0, {}, "warm-up may fail"))
        for number, value in enumerate(seconds, start=1):
            metrics = {"seconds": value, "cpu_s": value, "operations": operations}
            metrics |= {"memory_kib": memory, "mean_rss_kib": memory} | more
            records.append(results.run(CELL, by, number, metrics))
    return records


def file(path: Path, records: list[dict], *, allocators=(GLIBC, OURS), cells=(CELL,), **plan):
    known = [by if isinstance(by, dict) else results.allocator(by) for by in allocators]
    header = results.plan(known, [results.cell(name) for name in cells], **plan)
    return results.write(path, header, records)


def compared(folder: Path, before: list[dict], after: list[dict], **settings):
    """{(quantity or None, allocator): row}"""
    a, b = file(folder / "a.jsonl", before), file(folder / "b.jsonl", after)
    found = compare_command.compare_files(a, b, Settings(THRESHOLDS, **settings))
    return {(r.quantity.name if r.quantity else None, r.allocator): r for r in found.rows}


def near(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(application(), ["compare", *map(str, words)])
    return done.exit_code, " ".join(done.stdout.split()), done.stderr


@pytest.mark.parametrize(
    "factor,spread,verdict",
    [(1.1, 0.01, "slower"), (1 / 1.1, 0.01, "faster"), (1, 0.01, "same"), (1.1, 0.3, "unclear")],
)
def test_time_gets_its_verdict(tmp_path, factor, spread, verdict):
    before = measured({GLIBC: noise(1), OURS: noise(2, spread)})
    after = measured({GLIBC: noise(3), OURS: [factor * value for value in noise(4, spread)]})
    row = compared(tmp_path, before, after)["time", OURS]
    assert row.verdict == verdict and row.relative
    assert row.change == {"slower": 1, "faster": -1}.get(verdict, 0)


def test_the_drift_of_the_machine_cancels_against_the_reference(tmp_path):
    before = measured({GLIBC: noise(1), OURS: noise(2)})
    after = measured(
        {GLIBC: [1.3 * value for value in noise(3)], OURS: [1.3 * value for value in noise(4)]}
    )
    found = compared(tmp_path, before, after)
    assert found["time", OURS].verdict == "same"
    assert ("time", GLIBC) not in found
    alone = compared(tmp_path, before, after, reference="none")
    assert alone["time", OURS].verdict == alone["time", GLIBC].verdict == "slower"


def test_the_drift_is_told(tmp_path):
    before = measured({GLIBC: [1.0] * 9, OURS: [1.0] * 9})
    after = measured({GLIBC: [1.3] * 9, OURS: [1.3] * 9})
    a, b = file(tmp_path / "a", before), file(tmp_path / "b", after)
    assert "glibc, whose own time changed by +30.0 %" in near(a, b)[1]


def test_another_version_of_the_reference_is_none(tmp_path):
    runs = measured({GLIBC: noise(1), OURS: noise(2)})
    a = file(tmp_path / "a", runs)
    b = file(tmp_path / "b", runs, allocators=(results.allocator(GLIBC, "2"), OURS))
    found = compare_command.compare_files(a, b, Settings(THRESHOLDS))
    assert not any(row.relative for row in found.rows)
    assert any(warning.startswith("no reference") for warning in found.warnings)


def test_a_reference_that_failed_in_a_cell_is_not_used_there(tmp_path):
    good = measured({GLIBC: noise(1), OURS: noise(2)})
    bad = [*measured({OURS: noise(2)}), results.run(CELL, GLIBC, 1, {}, "timed out")]
    found = compared(tmp_path, good, bad)
    row = found["time", OURS]
    assert not row.relative and row.verdict == "same" and "not relative" in row.note
    assert found[None, GLIBC].verdict == "fails"


def test_a_result_of_a_busy_machine_decides_nothing_about_time(tmp_path):
    before = measured({GLIBC: noise(1), OURS: noise(2)})
    after = measured({GLIBC: noise(3), OURS: [1.5 * value for value in noise(4)]})
    for run in after:
        run["disturbed"] = "other work"
    row = compared(tmp_path, before, after)["time", OURS]
    assert row.verdict == "unclear" and "busy machine in B" in row.note


def test_rounds_are_paired_by_their_number(tmp_path):
    slow = [1.0, 3.0] * 5
    before = measured({GLIBC: slow, OURS: slow})
    shuffled = before[:11] + before[11:][::-1]  # nearmalloc's runs, the last round first
    row = compared(tmp_path, before, shuffled)["time", OURS]
    assert (row.ratio.low, row.ratio.high) == (1, 1)
    assert compared(tmp_path, before, before, reference="none")["time", OURS].verdict == "unclear"


def test_few_rounds_are_unclear(tmp_path):
    before = measured({GLIBC: [1.0] * 4, OURS: [1.0] * 4})
    after = measured({GLIBC: [1.0] * 4, OURS: [9.0] * 4}, memory=90_000)
    found = compared(tmp_path, before, after)
    assert {found["time", OURS].verdict, found["peak memory", OURS].verdict} == {"unclear"}
    assert "rounds: 4" in found["time", OURS].note
    shown = compare_command._row_json(found["time", OURS])
    assert (shown["ratio"]["low"], shown["ratio"]["high"]) == (None, None)


def test_memory_is_compared_without_the_reference(tmp_path):
    times = {GLIBC: [1.0] * 5, OURS: [1.0] * 5}
    found = compared(tmp_path, measured(times), measured(times, memory=11_000))
    assert found["peak memory", OURS].verdict == found["peak memory", GLIBC].verdict == "larger"
    assert found["mean memory", OURS].change == 1


def test_time_is_that_of_an_operation_where_the_time_is_fixed(tmp_path):
    times = {GLIBC: [2.0] * 5, OURS: [2.0] * 5}
    half = measured({GLIBC: [2.0] * 5}) + measured({OURS: [2.0] * 5}, operations=500)
    row = compared(tmp_path, measured(times), half)["time", OURS]
    assert row.verdict == "slower" and row.ratio.value == pytest.approx(2)


@pytest.mark.parametrize(
    "before,after,verdict",
    [(1_000_000, 1_050_000, "more"), (1_000_000, 1_010_000, "same"), (1_000_000, 950_000, "fewer")],
)
def test_instructions_are_exact(tmp_path, before, after, verdict):
    sides = [[results.instructions(CELL, OURS, number)] for number in (before, after)]
    assert compared(tmp_path, *sides)["instructions", OURS].verdict == verdict


@pytest.mark.parametrize(
    "before,after,verdict",
    [
        (3, 3, "same"),
        (3, 4, "unclear"),
        (3, 9, "unclear"),
        (100, 400, "more"),
        (0, 100, "more"),
        (90, 10, "fewer"),
    ],
)
def test_few_system_calls_prove_nothing(tmp_path, before, after, verdict):
    sides = [[results.count(CELL, OURS, madvise=number)] for number in (before, after)]
    found = compared(tmp_path, *sides)
    assert found["madvise calls", OURS].verdict == verdict
    assert ("mmap calls", OURS) not in found, "neither made any"


def test_system_calls_count_even_if_other_calls_could_not_be_counted(tmp_path):
    partly = results.count(CELL, OURS, mmap=500) | {"calls": None, "failure": "no calls"}
    found = compared(tmp_path, [partly], [partly])
    assert found["mmap calls", OURS].verdict == "same" and (None, OURS) not in found
    nothing = results.count(CELL, OURS) | {"syscalls": None, "failure": "timed out"}
    with pytest.raises(ValueError, match="nothing in common"):
        compared(tmp_path, [partly], [nothing])


def test_one_failed_run_is_a_failure_and_spoils_the_series(tmp_path):
    good = measured({GLIBC: noise(1), OURS: noise(2)})
    bad = [*good, results.run(CELL, OURS, 10, {}, "ended by SIGSEGV")]
    found = compared(tmp_path, good, bad)
    assert found[None, OURS].verdict == "fails" and found[None, OURS].change == 1
    assert found[None, OURS].note == "runs: ended by SIGSEGV (1 of 10 runs)"
    assert ("time", OURS) not in found and ("peak memory", OURS) not in found
    back = compared(tmp_path, bad, good)[None, OURS]
    assert back.verdict == "works" and back.change == -1
    assert (None, OURS) not in compared(tmp_path, bad, bad)


def test_a_failure_under_callgrind_is_one_but_not_to_count_is_none(tmp_path):
    counted = [results.instructions(CELL, OURS, 5)]
    both = [*measured({OURS: noise(2)}), *counted]
    crashed = [*measured({OURS: noise(2)}), results.instructions(CELL, OURS, None, "exit code 1")]
    assert compared(tmp_path, both, crashed)[None, OURS].note == "callgrind: exit code 1"
    assert (None, OURS) not in compared(tmp_path, both, measured({OURS: noise(2)}))


def test_what_was_measured_and_is_not_any_more_is_a_failure(tmp_path):
    good = measured({GLIBC: noise(1), OURS: noise(2)})
    gone = results.allocator(OURS, missing="not found") | {"group": "ours"}
    a, b = file(tmp_path / "a", good), file(tmp_path / "b", good, allocators=(GLIBC, gone))
    found = compare_command.compare_files(a, b, Settings(THRESHOLDS)).rows[0]
    assert (found.allocator, found.verdict, found.note) == (OURS, "fails", "runs: not found")
    half = compared(tmp_path, good, measured({GLIBC: noise(1)}))
    assert half[None, OURS].note == "runs: not run"


def test_a_peer_that_is_not_installed_any_more_is_a_warning(tmp_path):
    good = measured({GLIBC: noise(1), OURS: noise(2), "jemalloc": noise(3)})
    gone = results.allocator("jemalloc", missing="no package") | {"group": "peer"}
    a = file(tmp_path / "a", good, allocators=(GLIBC, OURS, "jemalloc"))
    b = file(tmp_path / "b", good[:20], allocators=(GLIBC, OURS, gone))
    for pair, side in (((a, b), "B"), ((b, a), "A")):
        status, shown, _ = near(*pair, "--fail-on-regression")
        assert status == 0 and "jemalloc fails" not in shown
        assert f"jemalloc is missing in {side} and not compared: no package" in shown


def test_a_program_that_hardly_allocates_blames_nobody_for_its_time(tmp_path):
    share = [results.count(CELL, GLIBC, malloc_share=0.004)]
    before = measured({GLIBC: noise(1), OURS: noise(2)}) + share
    after = measured({GLIBC: noise(1), OURS: [2.0] * 9}, memory=20_000) + share
    found = compared(tmp_path, before, after)
    assert found["time", OURS].verdict == "unclear" and "under 1%" in found["time", OURS].note
    assert found["peak memory", OURS].verdict == "larger"


def test_a_noisy_series_is_called_so(tmp_path):
    before = measured({GLIBC: noise(1), OURS: noise(2, 0.4)})
    row = compared(tmp_path, before, measured({GLIBC: noise(1), OURS: noise(2)}))["time", OURS]
    assert row.note == "noisy in A"


def test_nothing_can_be_said_of_zeros(tmp_path):
    runs = measured({GLIBC: noise(1), OURS: noise(2)}, mean_rss_kib=0)
    row = compared(tmp_path, runs, runs)["mean memory", OURS]
    assert row.verdict == "unclear" and row.ratio is None


@given(some.floats(0.3, 3), some.floats(1, 2), some.floats(0, 0.5))
def test_verdicts_are_mirrored_when_the_files_are_swapped(low, wide, threshold):
    there = Interval(low, low * wide, low * wide**2)
    back = Interval(1 / there.high, 1 / there.value, 1 / there.low)
    quantity = compare.QUANTITIES[0]
    (word, change), (mirrored, opposite) = (
        compare.judge(interval, threshold, quantity) for interval in (there, back)
    )
    swapped = {quantity.more: quantity.less, quantity.less: quantity.more}
    edges = (there.low, there.high, back.low, back.high)
    limits = (1 + threshold, 1 / (1 + threshold))
    if not any(abs(edge - limit) < 1e-9 for edge in edges for limit in limits):  # rounding decides
        assert change == -opposite and mirrored == swapped.get(word, word)


def test_an_unchanged_program_is_rarely_called_changed(tmp_path):
    """At the threshold 0 one change in twenty is certain by design, at 5 % none is."""
    alarms = {0.0: 0, 0.05: 0}
    trials = 200
    for trial in range(trials):
        sides = [noise(4 * trial + part, 0.04, 15) for part in range(4)]
        ratio = compare.stats.ratio_of_ratios(sides[:2], sides[2:], resamples=500)
        for threshold in alarms:
            alarms[threshold] += compare.judge(ratio, threshold, compare.QUANTITIES[0])[1] != 0
    assert alarms[0.0] / trials < 0.1 and alarms[0.05] == 0


def test_the_worst_comes_first(tmp_path):
    before = measured({GLIBC: [1.0] * 9, OURS: [1.0] * 9})
    after = measured({GLIBC: [1.0] * 9, OURS: [1.2] * 9}, memory=2_000)
    after.append(results.run(CELL, GLIBC, 10, {}, "timed out"))
    rows = list(compared(tmp_path, before, after).values())
    verdicts = [row.verdict for row in rows]
    assert verdicts == ["fails", "slower", "slower", "smaller", "smaller"]


def test_what_else_differs_is_named(tmp_path):
    runs = measured({GLIBC: noise(1), OURS: noise(2)})
    a = file(tmp_path / "a", runs, cells=(CELL, "old"), allocators=(GLIBC, OURS, "jemalloc"))
    machine = results.MACHINE | {"kernel": "6.2", "load": 9}
    newer = (GLIBC, results.allocator(OURS, "2"))
    b = file(tmp_path / "b", runs, machine=machine, plan_hash="other", allocators=newer)
    warnings = compare_command.compare_files(a, b, Settings(THRESHOLDS)).warnings
    assert "another machine: kernel was 6.1, is 6.2" in warnings
    assert "another plan: the texts of A's and B's plans differ" in warnings
    assert "nearmalloc: version was 1, is 2" in warnings
    assert "allocator jemalloc is only in A" in warnings and "only in A: old" in warnings
    assert len(warnings) == 5
    assert compare_command.compare_files(a, a, Settings(THRESHOLDS)).warnings == [
        "A and B are the same file"
    ]


def test_other_options_are_other_work(tmp_path):
    runs = measured({GLIBC: noise(1), OURS: noise(2)})
    a = file(tmp_path / "a", runs)
    moved = results.cell(CELL, ["/elsewhere/threadtest", "--size", "64"])
    header = results.plan([results.allocator(OURS)], [moved])
    assert near(a, results.write(tmp_path / "b", header, runs))[0] == 0
    header["cells"][0]["argv"][-1] = "128"
    status, _, error = near(a, results.write(tmp_path / "b", header, runs))
    assert status == 2 and "nothing in common" in error


def test_an_interrupted_file_is_compared_and_named(tmp_path):
    runs = measured({GLIBC: noise(1), OURS: noise(2)})
    a = file(tmp_path / "a", runs)
    text = a.read_text().splitlines(keepends=True)
    cut = tmp_path / "b"
    cut.write_text("".join(text[:-2]) + text[-2][:30])
    status, shown, _ = near(a, cut)
    assert status == 0 and "B was interrupted" in shown


@pytest.mark.parametrize(
    "content,says",
    [
        ("", "no results file of format 1"),
        ("{}\n{}\n", "line 1 is not a line of results"),
        ('{"kind": "run"}\n', "no results file of format 1"),
        ('{"kind": "plan", "format": 2}\n', "no results file of format 1"),
        ("\x00\n", "line 1 is not a line of results"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path, content, says):
    a = file(tmp_path / "a", measured({GLIBC: noise(1)}))
    bad = tmp_path / "bad"
    bad.write_text(content)
    status, shown, error = near(a, bad)
    assert status == 2 and not shown and says in error and len(error.splitlines()) == 1


def test_a_broken_line_in_the_middle_is_refused(tmp_path):
    a = file(tmp_path / "a", measured({GLIBC: noise(1)}))
    lines = a.read_text().splitlines()
    lines[3] = lines[3][:-5]
    (tmp_path / "b").write_text("\n".join(lines))
    status, _, error = near(a, tmp_path / "b")
    assert status == 2 and "b: line 4 is not a line of results" in error


@pytest.mark.parametrize(
    "words,says",
    [
        (["nowhere", "nowhere"], "neither a file nor a plan"),
        (["quick~x", "quick"], "a number is wanted"),
        (["quick~2", "quick"], "there are 2 results"),
        (["quick", "quick", "--allocators", "mimalloc3"], "mimalloc3 is not in both"),
        (["quick", "quick", "--json", "/nowhere/at/all.json"], "No such file"),
        (["quick", "quick", "--threshold-time", "-1"], "--threshold-time"),
    ],
)
def test_bad_input_is_refused(two_results, words, says):
    status, _, error = near(*words)
    assert status == 2 and says in error


@pytest.fixture
def two_results(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """The plan `quick` was run twice; the second time nearmalloc was larger."""
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    folder = tmp_path / "results" / "quick"
    times = {GLIBC: [1.0] * 5, OURS: [1.0] * 5}
    older = file(folder / "20260101-000000.jsonl", measured(times))
    larger = measured({GLIBC: times[GLIBC]}) + measured({OURS: times[OURS]}, memory=11_000)
    return older, file(folder / "20260102-000000.jsonl", larger)


def test_plans_stand_for_their_newest_results(two_results):
    status, shown, _ = near("quick~1", "quick")
    assert status == 0
    assert all(str(path) in shown for path in two_results)
    line = "threadtest nearmalloc peak memory 9.8 MiB 10.7 MiB +10.0 % +10.0 % to +10.0 % larger"
    assert line in shown


def test_the_gate_fails_on_a_certain_regression_alone(two_results):
    gate = "--fail-on-regression"
    assert near("quick~1", "quick", gate)[0] == 1
    assert near("quick", "quick~1", gate)[0] == 0, "smaller is no regression"
    assert near("quick", "quick", gate)[0] == 0
    assert near("quick~1", "quick", gate, "--allocators", GLIBC)[0] == 0
    assert near("quick~1", "quick", gate, "--threshold-memory", 11)[0] == 0


def test_the_gate_has_not_passed_where_everything_is_unclear(tmp_path):
    runs = measured({GLIBC: [1.0] * 4, OURS: [1.0] * 4})
    a, b = (file(tmp_path / name, runs) for name in "ab")
    assert near(a, b)[0] == 0
    status, shown, error = near(a, b, "--fail-on-regression")
    assert status == 2 and "0 certainly worse" in shown
    assert error == "compare: nothing could be judged: everything is unclear\n"


def test_the_summary_is_one_sentence(two_results):
    assert near("quick~1", "quick")[1].endswith(
        "B against A, 6 comparisons of glibc, nearmalloc in 1 cell: 2 certainly worse (worst: "
        "threadtest, peak memory +10.0 %), 0 certainly better, 0 unclear, 4 the same."
    )


def test_everything_is_in_the_json(two_results, tmp_path):
    near("quick~1", "quick", "--json", tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["regressions"] == 2 and found["thresholds"]["memory"] == 0.02
    assert len(found["rows"]) == 6 and found["rows"][0]["quantity"] == "peak memory"
    assert found["rows"][0]["ratio"] == pytest.approx({"low": 1.1, "value": 1.1, "high": 1.1})


def test_what_is_the_same_is_shown_on_request(two_results):
    assert "mean memory 9.8 MiB 9.8 MiB +0.0 %" not in near("quick", "quick")[1]
    assert "mean memory 9.8 MiB 9.8 MiB +0.0 %" in near("quick", "quick", "--all")[1]
