"""Published workloads, real programs and own rows are apart; memory is the heap above an empty
process; the row that decides a mean is named."""

from dataclasses import replace

import pytest

import results_file as make
from nearlab.report import build, figures, page, rows, tables, theme
from nearlab.report.analysis import MEMORY, TIME
from nearlab.report.verdict import verdict
from reporting import analyse, frame_of

# Ratios of time, nearmalloc to glibc, by group and cell.
RATIOS = {
    "published": {"larson": 0.5, "threadtest": 0.5, "phong": 2.0},
    "program": {"program:redis": 0.9, "program:gcc": 1.0},
    "own": {"churn": 0.8, "idle_threads": 1 / 64},
}


def lines(rounds: int = 5, **changes: dict) -> list[dict]:
    """Results in which nearmalloc takes half of glibc's memory."""
    cells = [
        make.cell(name) | {"origin": origin} | changes.get(name, {})
        for origin, found in RATIOS.items()
        for name in found
    ]
    found = [make.plan_line(["nearmalloc", "glibc"], cells, rounds=rounds)]
    for by_cell in RATIOS.values():
        for cell, ratio in by_cell.items():
            for number in range(1, rounds + 1):
                for name, times in (("glibc", 1.0), ("nearmalloc", ratio)):
                    kib = 20_000.0 if name == "glibc" else 10_000.0
                    metrics = {"seconds": times, "memory_kib": kib}
                    found.append(make.run_line(cell, name, number, metrics))
    return found


def empty(**kib: float) -> list[dict]:
    return [
        {"kind": "empty", "allocator": name, "memory_kib": [number] * 5}
        for name, number in kib.items()
    ]


def test_every_group_has_its_own_mean_and_none_is_over_all(tmp_path):
    analysis = analyse(tmp_path, lines())
    assert analysis.origins == ["published", "program", "own"]
    means = {
        origin: next(s for s in analysis.standings(origin) if s.allocator == "nearmalloc").time
        for origin in analysis.origins
    }
    assert [round(mean.value, 3) for mean in means.values()] == [0.794, 0.949, 0.112]
    frame = frame_of(analysis)
    contents = build.contents_of(analysis, frame)
    for figure in (contents.scatter, *contents.ratios):
        assert [panel.title.split(",")[0] for panel in figure.panels] == [
            "published workloads",
            "real programs",
            "own workloads",
        ]
        assert {row.group for row in figure.rows} == set(analysis.origins)
    sentence = verdict(analysis).sentence
    for told in ("0.79 [0.79, 0.79]", "0.95 [0.95, 0.95]", "0.11 [0.11, 0.11]"):
        assert told in sentence
    text = page.render(analysis, frame, contents)
    for heading in ("Published workloads, 3 cells", "Real programs, 2 cells", "Own workloads"):
        assert f"<h3>{heading}" in text


def test_a_title_says_the_time_in_every_group_and_the_page_what_was_not_counted(tmp_path):
    analysis = analyse(tmp_path, lines())
    scatter = figures.time_against_memory(analysis, frame_of(analysis))
    assert scatter.title == (
        "nearmalloc’s time, relative to glibc: 0.79 in published workloads, 0.95 in real programs, "
        "0.11 in own workloads"
    )
    for table in (tables.unranked(analysis.record), tables.harness(analysis.record)):
        assert table.rows == () and table.empty.startswith("Not counted: ")
    assert ("seconds of the speed probe", "1.00 to 1.00 of that before the first run") in (
        tables.machine(analysis.record).rows
    )


def test_the_row_that_decides_a_mean_is_named(tmp_path):
    analysis = analyse(tmp_path, lines())
    (row,) = (row for row in tables.ranks(analysis, "own").rows if row[1] == "nearmalloc")
    assert row[4] == "0.02 to 0.80 (idle_threads)"
    notes = figures.time_against_memory(analysis, frame_of(analysis)).notes
    assert any("if one row is left out; idle_threads decides." in note for note in notes)
    steady = rows.mean_row(analysis, "nearmalloc", MEMORY, analysis.common(MEMORY), "glibc")
    assert rows.deciding([steady]) == ()


def test_rows_used_for_tuning_are_counted_and_marked(tmp_path):
    analysis = analyse(tmp_path, lines(larson={"tuned": True}))
    assert analysis.told(analysis.common(TIME, "published")) == "3 cells (1 of 3 used for tuning)"
    frame = frame_of(analysis)
    text = page.render(analysis, frame, build.contents_of(analysis, frame))
    assert "larson (tuned)" in text and "phong (tuned)" not in text


def test_memory_is_the_heap_above_an_empty_process(tmp_path):
    analysis = analyse(tmp_path, [*lines(), *empty(glibc=4000, nearmalloc=8000)])
    heap = analysis.ratio("larson", "nearmalloc", "glibc", MEMORY)
    assert heap.value == pytest.approx(2000 / 16000)
    by_size, fixed = figures.memory_by_size(analysis, frame_of(analysis))
    assert [panel.title for panel in by_size.panels] == ["4 to 16 MiB, 7 cells"]
    assert {row.allocator: row.value for row in fixed.rows} == {
        "nearmalloc": pytest.approx(8000 / 1024, abs=1e-3),
        "glibc": pytest.approx(4000 / 1024, abs=1e-3),
    }


def test_small_heaps_are_in_no_mean_and_a_heap_is_never_nothing(tmp_path):
    analysis = analyse(tmp_path, [*lines(), *empty(glibc=16_500, nearmalloc=12_000)])
    assert analysis.common(MEMORY) == [] and len(analysis.common(TIME)) == 7
    assert analysis.ratio("larson", "nearmalloc", "glibc", MEMORY).value == 256 / 3500
    assert "memory 0" in verdict(analysis).sentence
    build.contents_of(analysis, frame_of(analysis))


def test_a_result_without_empty_processes_has_peak_memory(tmp_path):
    analysis = analyse(tmp_path, lines())
    assert analysis.ratio("larson", "nearmalloc", "glibc", MEMORY).value == 0.5
    assert figures.memory_by_size(analysis, frame_of(analysis)) == []


def test_the_setting_above_a_picture_is_no_wider_than_its_panels(tmp_path):
    analysis = analyse(tmp_path, lines())
    scatter = figures.time_against_memory(analysis, frame_of(analysis))
    told = theme._lines(replace(scatter, setting="word " * 100))
    assert [len(line) for line in told] == [209, 209, 79] and len(scatter.panels) == 3
    assert len(theme._lines(replace(scatter, setting="word " * 100, panels=()))[0]) == 139
