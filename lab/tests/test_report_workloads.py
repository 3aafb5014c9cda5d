"""Figures that compare workloads under each allocator, and timelines, worked out by hand."""

import pytest

import results_file as make
from nearlab.report import build, planned, timelines
from nearlab.timeline import command as timeline
from reporting import analyse, frame_of

FIGURE = """
[[figure]]
name = "one"
title = "One"
by = "workload"
"""
# Seconds by workload, allocator and threads.
SECONDS = {
    "batch": {"glibc": {2: 4.0, 4: 8.0}, "tbb": {2: 2.0, 4: 2.0}},
    "amortized": {"glibc": {2: 2.0, 4: 2.0}, "tbb": {2: 2.0, 4: 1.0}},
}


def lines_of(figure: str) -> list[dict]:
    cells = [make.cell(name, threads=count) for name in SECONDS for count in (2, 4)]
    found = [make.plan_line(["glibc", "tbb"], cells, figures=figure, rounds=5)]
    for workload, by_allocator in SECONDS.items():
        for name, by_threads in by_allocator.items():
            for count, value in by_threads.items():
                for number in range(1, 6):
                    metrics = {"seconds": value, "memory_kib": 1024 * value}
                    found.append(make.run_line(f"{workload} t={count}", name, number, metrics))
    return found


def drawn(tmp_path, figure: str):
    path = make.write(tmp_path / "quick" / "20261121-100000.jsonl", lines_of(figure))
    analysis, frame = build.open_record(path)
    (found,) = planned.planned(analysis, frame)
    for panel in found.panels:
        panel.chart.to_dict()
    return found, frame


def test_lines_by_workload_have_a_panel_for_each_allocator(tmp_path):
    text = FIGURE + 'kind = "lines"\nworkloads = ["*"]\nx = "threads"\n'
    found, frame = drawn(tmp_path, text)
    assert [panel.title for panel in found.panels] == ["glibc", "tbb"]
    assert found.legend == ("batch", "amortized") == tuple(frame.series)
    assert {row.allocator for row in found.rows} == {"glibc", "tbb"} and len(found.rows) == 8
    text += 'allocators = ["tbb"]\n'
    found, _ = drawn(tmp_path, text)
    assert [panel.title for panel in found.panels] == ["tbb"]
    assert {row.allocator for row in found.rows} == {"tbb"}


def test_each_is_a_figure_for_every_value(tmp_path):
    text = FIGURE.replace('"one"', '"of {what}"') + 'kind = "bars"\nworkloads = ["{what}"]\n'
    text += 'each = { what = ["batch", "amortized"] }\n'
    path = make.write(tmp_path / "quick" / "20261121-100000.jsonl", lines_of(text))
    found = planned.planned(*build.open_record(path))
    assert [figure.name for figure in found] == ["of batch", "of amortized"]
    assert {row.workload for row in found[1].rows} == {"amortized"}


@pytest.mark.parametrize("kind", ["lines", "bars", "heatmap"])
def test_a_ratio_is_to_the_like_cell_of_the_other_workload(tmp_path, kind):
    text = FIGURE + f'kind = "{kind}"\nworkloads = ["amortized"]\nrelative_to = "batch"\n'
    found, _ = drawn(tmp_path, text + ('x = "threads"\n' if kind == "lines" else ""))
    by_cell = {(row.cell, row.allocator): row.value for row in found.rows}
    assert by_cell == {
        ("amortized t=2", "glibc"): 0.5,
        ("amortized t=4", "glibc"): 0.25,
        ("amortized t=2", "tbb"): 1,
        ("amortized t=4", "tbb"): 0.5,
    }
    assert {row.unit for row in found.rows} == {"of batch"}


def test_bars_by_workload_have_a_panel_for_each_allocator_and_place(tmp_path):
    found, _ = drawn(tmp_path, FIGURE + 'kind = "bars"\nworkloads = ["*"]\n')
    titles = [panel.title for panel in found.panels]
    assert titles == ["glibc, t=2", "glibc, t=4", "tbb, t=2", "tbb, t=4"]


def test_the_page_and_the_pictures_of_such_a_figure(tmp_path):
    text = FIGURE + 'kind = "lines"\nworkloads = ["*"]\nx = "threads"\n'
    path = make.write(tmp_path / "quick" / "20261121-100000.jsonl", lines_of(text))
    page = build.build(path, tmp_path / "report")
    assert (tmp_path / "report" / "one.png").stat().st_size > 1000
    assert page.read_text().count(">amortized</li>") == 1


TIMELINE = """
[[timeline]]
name = "figure-3.3"
cell = "batch t=4"
title = "DEBRA"
caption = "A thesis, figure 3.3."
"""


def timeline_lines(**by_allocator: str | None) -> list[dict]:
    """A record under each allocator; the values are the failure, or None."""
    return lines_of(TIMELINE) + [
        {
            "kind": "timeline",
            "cell": "batch t=4",
            "allocator": name,
            "file": "1.timeline",
            "result": {"seconds": 8.0, "name": "x"},
            "failure": failure,
        }
        for name, failure in by_allocator.items()
    ]


def test_a_timeline_is_drawn_or_has_its_reason(tmp_path):
    analysis = analyse(tmp_path, timeline_lines(glibc="timed out"))
    found = timelines.of(analysis)
    assert [(one.name, one.title, one.problem) for one in found] == [
        ("figure-3.3-glibc", "DEBRA, glibc", "timed out"),
        ("figure-3.3-tbb", "DEBRA, tbb", "not run"),
    ]
    assert frame_of(analysis).series == {}


def test_a_timeline_draws_the_kind_and_the_window_it_names(tmp_path, monkeypatch):
    drawn_with = []

    def draw(path, target, title, **chosen):
        drawn_with.append(chosen)
        target.write_bytes(b"picture")

    monkeypatch.setattr(timeline, "draw", draw)
    lines = timeline_lines(glibc=None)
    text = lines[0]["plan_toml"]
    for more in ("", 'kind = "range_query"\nwindow_ms = [1, 2]\n'):
        lines[0]["plan_toml"] = text + more
        assert timelines.of(analyse(tmp_path, lines))[0].png == b"picture"
    plain, named = drawn_with
    assert plain == {"from_ms": None, "to_ms": None, "kind": None}
    assert named == {"from_ms": 1, "to_ms": 2, "kind": "range_query"}
