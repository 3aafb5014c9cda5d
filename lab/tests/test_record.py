"""Reading results: damaged, failed, missing or duplicate records are reported and never used."""

import json

import pytest

import results_file as make
from nearlab.results import journal, record


def lines(seconds: dict[str, list[float]], **more) -> list[dict]:
    """One cell `churn` with one run for each number of seconds; round 0 must not count."""
    found = [make.plan_line(list(seconds), [make.cell("churn")])]
    for name, values in seconds.items():
        for number, value in enumerate([99.0, *values]):
            metrics = {"seconds": value, "memory_kib": 1000.0 * value} | more
            found.append(make.run_line("churn", name, number, metrics))
    return found


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results of two plans."""
    monkeypatch.setenv("NEAR_LAB_RESULTS", str(tmp_path))
    for name in ("quick/20261121-100000", "quick/20261122-100000", "paper/20261123-100000"):
        make.write(tmp_path / f"{name}.jsonl", [])
    return tmp_path


def read(tmp_path, content: list[dict], tail: str = "") -> record.Record:
    path = make.write(tmp_path / "quick" / "20261121-100000.jsonl", content)
    with path.open("a") as file:
        file.write(tail)
    return record.read(path)


def test_series_are_by_round_and_without_the_warm_up(tmp_path):
    found = read(tmp_path, lines({"glibc": [1, 2, 3]}))
    assert found.series("churn", "glibc", "seconds") == {1: 1, 2: 2, 3: 3}
    assert found.series("churn", "glibc", "memory_kib") == {1: 1000, 2: 2000, 3: 3000}
    assert found.series("churn", "glibc", "no such metric") == {}


def test_time_is_per_operation_where_operations_are_counted(tmp_path):
    assert read(tmp_path, lines({"glibc": [1, 2]})).series("churn", "glibc", "time") == {1: 1, 2: 2}
    counted = read(tmp_path, lines({"glibc": [1, 2]}, operations=4))
    assert counted.series("churn", "glibc", "time") == {1: 0.25, 2: 0.5}


def test_work_is_the_time_of_all_threads_and_nothing_where_there_is_no_number_of_them(tmp_path):
    content = lines({"glibc": [1, 2]})
    assert read(tmp_path, content).series("churn", "glibc", "work_s") == {}
    content[0]["cells"][0]["threads"] = 64
    assert read(tmp_path, content).series("churn", "glibc", "work_s") == {1: 64, 2: 128}


def test_times_that_an_earlier_version_scaled_are_read_as_they_were_measured(tmp_path):
    found = read(tmp_path, lines({"glibc": [1, 2]}, seconds_raw=3))
    assert found.series("churn", "glibc", "time") == {1: 3, 2: 3}


def test_the_speed_of_the_machine_is_relative_to_that_before_the_first_run(tmp_path):
    content = lines({"glibc": [1, 2]})
    content[-2]["probe_s"] = 0.1
    assert sorted(read(tmp_path, content).speeds()) == [1, 2]


def test_pairs_are_of_the_rounds_both_have(tmp_path):
    content = lines({"glibc": [1, 2, 3], "limit": [4, 5, 6]})
    content = [x for x in content if (x.get("allocator"), x.get("round")) != ("limit", 2)]
    found = read(tmp_path, content)
    assert found.paired("churn", "limit", "glibc", ("time", "time")) == ([4, 6], [1, 3])


def test_one_failed_run_fails_the_cell_but_a_failed_warm_up_does_not(tmp_path):
    content = lines({"glibc": [1, 2, 3], "jemalloc": [1, 2, 3]})
    content.append(make.run_line("churn", "jemalloc", 2, failure="ended by SIGSEGV"))
    content.append(make.run_line("churn", "jemalloc", 3, failure="failed before: ended by SIGSEGV"))
    content.append(make.run_line("churn", "glibc", 0, failure="timed out"))
    found = read(tmp_path, content)
    assert found.problem("churn", "jemalloc") == "ended by SIGSEGV"
    assert found.series("churn", "jemalloc", "seconds") == {}
    assert found.problem("churn", "glibc") is None
    assert [(f.allocator, f.rounds, f.reason) for f in found.failures()] == [
        ("glibc", (0,), "timed out"),
        ("jemalloc", (2, 3), "ended by SIGSEGV"),
    ]


def test_what_was_not_run_has_a_reason(tmp_path):
    content = lines({"glibc": [1], "limit": []})[:3]
    content[0]["allocators"].append(make.allocator("tbb", "no package"))
    content[0]["cells"].append(make.cell("larson") | {"missing": "not built"})
    found = read(tmp_path, content)
    assert found.problem("churn", "tbb") == "missing: no package"
    assert found.problem("churn", "limit") == "not run"
    assert found.problem("larson", "glibc") == "missing: not built"


def test_a_last_line_cut_short_does_not_count_and_the_rest_is_read(tmp_path):
    found = read(tmp_path, lines({"glibc": [1, 2]}), tail='{"kind":"run","cell":"chu')
    assert not found.complete and len(found.series("churn", "glibc", "seconds")) == 2


def test_a_broken_line_in_the_middle_is_refused_with_its_number(tmp_path):
    with pytest.raises(record.RecordError, match="line 5 is not a line of results"):
        read(tmp_path, lines({"glibc": [1, 2]}), tail='{"kind":"run","cell":"chu\n')


def test_resumes_are_counted_and_the_last_of_two_runs_counts(tmp_path):
    again = make.run_line("churn", "glibc", 2, {"seconds": 7.0})
    tail = json.dumps({"kind": "resume"}) + "\n" + json.dumps(again) + "\n"
    found = read(tmp_path, lines({"glibc": [1, 2]}), tail)
    assert (found.resumes, found.complete) == (1, False)
    assert found.series("churn", "glibc", "seconds") == {1: 1, 2: 7}
    tail += json.dumps({"kind": "end", "complete": True}) + "\n"
    assert read(tmp_path, lines({"glibc": [1, 2]}), tail).complete


def test_noise_is_flagged_above_nine_percent(tmp_path):
    # The median is 100, the median absolute deviation 9 and 9.1.
    quiet, loud = [91, 91, 100, 109, 109], [90.9, 90.9, 100, 109.1, 109.1]
    found = read(tmp_path, lines({"glibc": quiet, "limit": loud}))
    assert found.spread("churn", "glibc") == pytest.approx(0.09)
    assert not found.noisy("churn", "glibc") and found.noisy("churn", "limit")


def test_fewer_than_five_counted_runs_are_too_few(tmp_path):
    found = read(tmp_path, lines({"glibc": [1] * 5, "limit": [1] * 4, "tbb": []}))
    few = [name for name in ("glibc", "limit", "tbb") if found.few_runs("churn", name)]
    assert few == ["limit"]


@pytest.mark.parametrize(("share", "insensitive"), [(0.0099, True), (0.01, False), (None, False)])
def test_a_program_that_hardly_allocates_is_insensitive(tmp_path, share, insensitive):
    count = {"kind": "count", "cell": "churn", "allocator": "glibc", "malloc_share": share}
    found = read(tmp_path, [*lines({"glibc": [1]}), count])
    assert found.insensitive("churn") is insensitive


@pytest.mark.parametrize("text", ["", '{"kind":"run"}\n', '{"kind":"plan","format":2}\n'])
def test_a_file_that_is_none_of_ours_is_refused(tmp_path, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(record.RecordError, match="format 1"):
        record.read(path)


def test_counting_that_failed_is_a_failure_and_instructions_are_read(tmp_path):
    def of(kind: str, name: str, **more) -> dict:
        return {"kind": kind, "cell": "churn", "allocator": name} | more

    content = lines({"glibc": [1], "tbb": [1]})
    content.append(of("count", "tbb", failure="timed out", syscalls=None))
    content.append(of("instructions", "tbb", failure="failed before: timed out"))
    content.append(of("instructions", "glibc", failure=None, instructions=9))
    content.append(make.run_line("churn", "tbb", 0, failure="timed out"))
    found = read(tmp_path, content)
    (failure,) = found.failures()
    assert failure.rounds == (0, "count", "instructions") and failure.allocator == "tbb"
    assert found.problem("churn", "tbb") is None
    assert found.extras["instructions"]["churn", "glibc"]["instructions"] == 9


@pytest.mark.parametrize(
    ("text", "stem"),
    [
        ("quick", "20261122-100000"),
        ("quick~1", "20261121-100000"),
        ("", "20261123-100000"),
        ("paper~0", "20261123-100000"),
    ],
)
def test_results_are_found_by_plan_and_age(results, text, stem):
    assert journal.find(text).stem == stem
    assert journal.find(str(journal.find(text))) == journal.find(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("other", "neither a file nor a plan that has results"),
        ("quick~2", "there are 2 results"),
        ("quick~x", "a number is wanted"),
    ],
)
def test_results_that_are_not_there_are_told(results, text, message):
    with pytest.raises(journal.JournalError, match=message):
        journal.find(text)


def test_no_results_at_all_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("NEAR_LAB_RESULTS", str(tmp_path / "none"))
    with pytest.raises(journal.JournalError, match="no results in"):
        journal.find()
