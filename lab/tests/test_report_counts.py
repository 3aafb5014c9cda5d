"""Counts, instructions and latencies in a report: sums and means worked out by hand."""

import pytest
from reporting import analyse, content, frame_of

from nearlab.report import counts

NAMES = ("nearmalloc", "glibc", "tbb")


def extra(kind: str, cell: str, name: str, **found) -> dict:
    return {"kind": kind, "cell": cell, "allocator": name, "failure": None} | found


def counted(missing: set[tuple[str, str]]) -> list[dict]:
    """Adds a counting run for every pair except the missing ones."""
    lines = content()
    for cell, calls in (("churn", 5), ("larson", 7), ("phong", 100)):
        for name in NAMES:
            found = None if (cell, name) in missing else {"mmap": calls, "madvise": 1}
            lines.append(extra("count", cell, name, syscalls=found))
    return lines


def test_counts_are_summed_over_cells_all_completed(tmp_path):
    analysis = analyse(tmp_path, counted({("phong", "tbb")}))
    found = counts.counts(analysis, frame_of(analysis))
    sums = {(row.allocator, row.metric): row.value for row in found.rows}
    assert (sums["tbb", "mmap"], sums["glibc", "madvise"]) == (12, 2)
    assert "of one counting run" in found.caption and "2 cells" in found.caption


def test_who_could_not_be_counted_is_named_and_costs_nothing(tmp_path):
    lines = counted({(cell, "tbb") for cell in ("churn", "larson", "phong")})
    for line in lines:
        if line["kind"] == "run":
            line["metrics"]["minor_faults"] = 10.0 * line["round"]
    analysis = analyse(tmp_path, lines)
    found = counts.counts(analysis, frame_of(analysis))
    rows = {(row.allocator, row.metric): (row.value, row.runs) for row in found.rows}
    assert rows["glibc", "mmap"] == (112, 1)
    assert rows["glibc", "minor_faults"] == (90, 5), "a median of each of three cells"
    assert "tbb" not in {row.allocator for row in found.rows}
    assert found.notes == ("Not here: tbb (has 0 of 3).",)


def test_instructions_are_ratios_and_the_limit_costs_no_cell(tmp_path):
    cells = ("churn", "larson", "phong")
    seconds = {cell: {name: [1] * 5 for name in (*NAMES, "limit")} for cell in cells}
    lines = content(seconds, names=(*NAMES, "limit"))
    assert counts.instructions(analyse(tmp_path, lines), frame_of(analyse(tmp_path, lines))) is None
    for name, factor in (("glibc", 100), ("nearmalloc", 50), ("tbb", 200)):
        lines.append(extra("instructions", "churn", name, instructions=factor))
        lines.append(extra("instructions", "larson", name, instructions=4 * factor))
        lines.append(extra("instructions", "phong", name, instructions=factor))
    for cell in cells[:2]:
        lines.append(extra("instructions", cell, "limit", instructions=9))
    analysis = analyse(tmp_path, lines)
    found = counts.instructions(analysis, frame_of(analysis))
    assert {row.allocator: row.value for row in found.rows} == {
        "nearmalloc": 0.5,
        "glibc": 1,
        "tbb": 2,
    }
    assert found.notes == ("Not here: limit (has 2 of 3).",)


def test_latencies_are_means_over_cells_where_all_have_them(tmp_path):
    lines = content()
    p99 = {"glibc": 100.0, "nearmalloc": 25.0, "tbb": 200.0}
    for line in lines[1:]:
        by, zero = line["allocator"], (line["cell"], line["allocator"]) == ("phong", "tbb")
        line["metrics"] |= {"malloc_p99_ns": 0.0 if zero else p99[by], "free_p99_9_ns": 7.0}
    analysis = analyse(tmp_path, lines)
    found = counts.latencies(analysis, frame_of(analysis))
    values = {(row.allocator, row.metric): row.value for row in found.rows}
    assert values["nearmalloc", "malloc_p99_ns"] == pytest.approx(0.25)
    assert values["tbb", "malloc_p99_ns"] == pytest.approx(2)
    titles = [panel.title for panel in found.panels]
    assert titles == ["malloc, 99 %, 2 cells", "free, 99.9 %, 3 cells"]
    assert counts.latencies(analyse(tmp_path, content()), frame_of(analysis)) is None
