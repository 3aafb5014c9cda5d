"""The report's numbers, worked out by hand, and its text on failures and on too few runs."""

import csv
import itertools
import json

import pytest
from typer.testing import CliRunner

import results_file as make
from nearlab import places
from nearlab.commands import application
from nearlab.report import figures, labels, page, planned, rows, style, tables, theme
from nearlab.report.analysis import MEMORY, TIME
from nearlab.report.verdict import verdict
from nearlab.results import record
from reporting import (
    FIGURE,
    SECONDS,
    analyse,
    content,
    drawn,
    frame_of,
    threads_content,
    values,
)


def test_means_are_geometric_over_the_cells_all_completed(tmp_path):
    analysis = analyse(tmp_path, content())
    # The ratios to glibc are 1/2, 1/2, 4 for nearmalloc and 2, 2, 2 for tbb.
    assert analysis.mean("nearmalloc", TIME, analysis.common(TIME)).value == pytest.approx(1)
    assert analysis.mean("tbb", MEMORY, analysis.common(MEMORY)).value == pytest.approx(2)
    without = {name: dict(found) for name, found in SECONDS.items()}
    del without["phong"]["tbb"]
    lines = content(without)
    lines.append(make.run_line("phong", "tbb", 1, failure="timed out"))
    analysis = analyse(tmp_path, lines)
    assert analysis.left_out() == ["tbb (completed 2 of 3)"]
    assert analysis.common(TIME) == ["churn", "larson", "phong"]


def test_a_cell_few_fail_leaves_the_means_and_not_the_allocator(tmp_path):
    seconds = {
        f"cell {n}": {a: [n] * 5 for a in ("glibc", "nearmalloc", "tbb")} for n in range(1, 7)
    }
    lines = [*content(seconds), make.run_line("cell 3", "tbb", 2, failure="ended by SIGSEGV")]
    analysis = analyse(tmp_path, lines)
    assert analysis.left_out() == [] and len(analysis.common(TIME)) == 5
    assert "cell 3" not in analysis.common(TIME)


def test_the_limit_never_costs_a_cell_and_has_no_rank(tmp_path):
    seconds = {name: dict(found) for name, found in SECONDS.items()}
    seconds["churn"]["limit"] = seconds["larson"]["limit"] = [1] * 5
    names = ("nearmalloc", "glibc", "tbb", "limit")
    analysis = analyse(tmp_path, content(seconds, names=names))
    assert len(analysis.common(TIME)) == 3 and "limit" not in analysis.compared
    seconds["phong"] = SECONDS["phong"] | {"limit": [1] * 5}
    analysis = analyse(tmp_path, content(seconds, names=names))
    assert [s.time_rank for s in analysis.standings("own") if s.allocator == "limit"] == [None]


def test_ranks_are_shared_where_intervals_meet(tmp_path):
    # nearmalloc's median is the least, but its runs are on both sides of glibc's.
    seconds = {"churn": {"glibc": [4] * 5, "nearmalloc": [3, 3, 3.9, 5, 5], "tbb": [8] * 5}}
    table = tables.ranks(analyse(tmp_path, content(seconds)), "own")
    assert {row[1]: row[0] for row in table.rows} == {
        "nearmalloc": "1 =",
        "glibc": "1 =",
        "tbb": "3",
    }


def test_the_verdict_says_where_the_subject_wins_and_loses(tmp_path):
    found = verdict(analyse(tmp_path, content()))
    assert found.sentence.startswith("nearmalloc takes 1.00 [")
    assert "the fastest in 2 of 3, level with the best in 0 and behind in 1" in found.sentence
    assert any(
        line.startswith("larson: 0.50 [0.50, 0.50] of the time of glibc") for line in found.wins
    )
    assert found.losses[0] == "phong: 4.00 [4.00, 4.00] of the time of glibc"


def test_another_subject_can_be_judged_and_nearmalloc_is_not_needed(tmp_path):
    found = verdict(analyse(tmp_path, content(), "tbb"))
    assert found.sentence.startswith("tbb takes 2.00 [")
    seconds = {
        cell: {a: v for a, v in by.items() if a != "nearmalloc"} for cell, by in SECONDS.items()
    }
    analysis = analyse(tmp_path, content(seconds, names=("glibc", "tbb")))
    assert analysis.subject is None
    assert verdict(analysis).sentence.startswith("Least time: glibc (1.00 [1.00, 1.00] of glibc)")


def test_without_glibc_another_is_the_baseline(tmp_path):
    seconds = {cell: {a: v for a, v in by.items() if a != "glibc"} for cell, by in SECONDS.items()}
    analysis = analyse(tmp_path, content(seconds, names=("tbb", "nearmalloc")))
    assert analysis.base == "tbb"
    assert analysis.ratio("larson", "nearmalloc", "tbb", TIME).value == 0.25


def test_nothing_is_ranked_from_four_runs(tmp_path):
    seconds = {cell: {a: v[:4] for a, v in by.items()} for cell, by in SECONDS.items()}
    analysis = analyse(tmp_path, content(seconds))
    assert verdict(analysis).sentence.startswith("No verdict")
    assert {row[0] for row in tables.ranks(analysis, "own").rows} == {"–"}
    assert len(tables.unranked(analysis.record).rows) == 3


def test_insensitive_programs_rank_nobody(tmp_path):
    count = {"kind": "count", "cell": "phong", "allocator": "glibc", "malloc_share": 0.005}
    analysis = analyse(tmp_path, [*content(), count])
    assert analysis.common(TIME) == ["churn", "larson"]
    assert analysis.mean("nearmalloc", TIME, analysis.common(TIME)).value == pytest.approx(0.5)


def test_bars_hold_medians_in_the_metrics_unit(tmp_path):
    found = drawn(tmp_path, FIGURE + 'kind = "bars"\nworkloads = ["churn"]\ny = "memory_kib"\n')
    assert values(found) == {
        ("churn", "nearmalloc"): 2,
        ("churn", "glibc"): 4,
        ("churn", "tbb"): 8,
    }
    assert {(row.unit, row.runs) for row in found.rows} == {("MiB", 5)}
    assert found.caption == "A paper, figure 1."


def test_a_scatter_is_of_the_workloads_it_names(tmp_path):
    found = drawn(tmp_path, FIGURE + 'kind = "scatter"\nworkloads = ["churn", "larson"]\n')
    assert {(r.allocator, r.metric): round(r.value, 6) for r in found.rows} == {
        ("nearmalloc", "time"): 0.5,
        ("nearmalloc", "heap_kib"): 0.5,
        ("glibc", "time"): 1,
        ("glibc", "heap_kib"): 1,
        ("tbb", "time"): 2,
        ("tbb", "heap_kib"): 2,
    }


def test_a_heat_map_marks_what_failed(tmp_path):
    lines = content(figure=FIGURE + 'kind = "heatmap"\nrelative_to = "glibc"\n')
    lines.append(make.run_line("larson", "tbb", 2, failure="ended by SIGABRT"))
    found = drawn(tmp_path, "", lines)
    assert values(found)["phong", "nearmalloc"] == 4
    assert values(found)["larson", "tbb"] is None
    chart = json.dumps(found.heat.to_dict())
    assert chart.count('"failed"') == 1 and "ended by SIGABRT" in chart


def test_speed_up_is_of_glibcs_time_with_the_fewest_threads(tmp_path):
    figure = FIGURE + 'kind = "lines"\nx = "threads"\ny = "speedup"\n'
    found = drawn(tmp_path, "", threads_content(figure))
    assert [row.value for row in found.rows if row.allocator == "tbb"] == [2, 4, 8]
    assert [row.value for row in found.rows if row.allocator == "glibc"] == [1, 1, 2]
    assert [row.oversubscribed for row in found.rows if row.allocator == "tbb"] == [0, 0, 1]
    assert "oversubscribed" in found.caption


def test_a_sweep_has_its_option_on_the_x_axis(tmp_path):
    cells = [make.cell("sizes", x={"size": size}) for size in (16, 64)]
    figure = FIGURE + 'kind = "lines"\nx = "size"\ny = "seconds"\nrelative_to = "glibc"\n'
    lines = [make.plan_line(["glibc", "tbb"], cells, figures=figure)]
    for size, value in ((16, 3.0), (64, 6.0)):
        for number in range(1, 6):
            lines += [
                make.run_line(f"sizes size={size}", "glibc", number, {"seconds": 2.0}),
                make.run_line(f"sizes size={size}", "tbb", number, {"seconds": value}),
            ]
    found = drawn(tmp_path, "", lines)
    assert [(r.x, r.value) for r in found.rows if r.allocator == "tbb"] == [(16, 1.5), (64, 3)]


def test_curves_are_medians_point_by_point(tmp_path):
    figure = FIGURE + 'kind = "curve"\nseries = "rss"\ny = "resident; live"\nx = "step"\n'
    lines = [make.plan_line(["glibc"], [make.cell("churn")], figures=figure)]
    for number, level in enumerate((1, 2, 9), 1):
        result = {"rss": [[0, level, 5], [10, 2 * level, 6]]}
        lines.append(make.run_line("churn", "glibc", number, {"seconds": 1.0}, result=result))
    found = drawn(tmp_path, "", lines)
    assert [(r.metric, r.x, r.value) for r in found.rows] == [
        ("resident", 0, 2),
        ("resident", 10, 4),
        ("live", 0, 5),
        ("live", 10, 6),
    ]
    assert len(found.panels) == 2


@pytest.mark.parametrize(
    ("named", "columns"),
    [
        ("step; resident; live", ["resident", "live"]),
        ("resident; live", ["resident", "live"]),
        ("resident", ["resident", "rss 2"]),
        ("", ["rss 1", "rss 2"]),
    ],
)
def test_columns_of_a_curve_have_the_names_of_y(tmp_path, named, columns):
    figure = FIGURE + f'kind = "curve"\nseries = "rss"\ny = "{named}"\n'
    lines = [make.plan_line(["glibc"], [make.cell("churn")], figures=figure)]
    result = {"rss": [[0, 1, 5], [10, 2, 6]]}
    lines.append(make.run_line("churn", "glibc", 1, {"seconds": 1.0}, result=result))
    assert list(dict.fromkeys(row.metric for row in drawn(tmp_path, "", lines).rows)) == columns


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('kind = "pie"\n', "unknown kind 'pie'"),
        ('kind = "lines"\nx = "size"\n', "no cell has a value of 'size'"),
    ],
)
def test_a_figure_that_cannot_be_is_an_error(tmp_path, entry, message):
    with pytest.raises(record.RecordError, match=message):
        drawn(tmp_path, FIGURE + entry)


def test_a_figure_of_cells_that_were_not_chosen_is_left_out(tmp_path):
    figure = FIGURE + 'kind = "bars"\nworkloads = ["none"]\n'
    lines = [make.plan_line(["glibc"], [make.cell("churn")], figures=figure)]
    lines.append(make.run_line("churn", "glibc", 1, {"seconds": 1.0}))
    analysis = analyse(tmp_path, lines)
    assert planned.planned(analysis, frame_of(analysis)) == []


def test_colours_are_fixed_by_name_and_the_subject_stands_out():
    first = style.looks(["nearmalloc", "glibc", "tbb", "strange"], "nearmalloc")
    second = style.looks(["strange", "tbb", "glibc", "nearmalloc"], "nearmalloc")
    assert first == second and first["nearmalloc"] == style.SUBJECT
    other = style.looks(["nearmalloc", "tbb"], "tbb")
    assert other["tbb"] == style.SUBJECT != other["nearmalloc"]
    crowd = [f"allocator {number}" for number in range(12)]
    assert len(set(style.looks(crowd, None).values())) == 12


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012345, "0.0123"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,230"), (0, "0")],
)
def test_numbers_have_three_digits(value, text):
    assert style.number(value) == text


def test_labels_of_near_points_do_not_cover_each_other():
    points = [labels.Point(f"name{n}", 0.5, 0.5 + n / 500, (0.5, 0.5)) for n in range(4)]
    box = labels.Box(600, 400)
    placed = labels.place(points, box, (0, 0))
    for side in (True, False):
        heights = sorted(one.y * box.height for one in placed if one.right is side)
        assert all(b - a >= 15 for a, b in itertools.pairwise(heights))


def test_text_of_a_plan_cannot_become_markup(tmp_path):
    lines = content()
    lines[0]["title"] = "<script>alert(1)</script>"
    lines[0]["cells"][0]["group"] = "</script><b>"
    analysis = analyse(tmp_path, lines)
    frame = frame_of(analysis)
    scatter = figures.time_against_memory(analysis, frame)
    heat_maps = figures.heat_maps(analysis, frame)
    text = page.render(analysis, frame, page.Contents(scatter, heat_maps, (), (), (), None, ()))
    assert "<script>alert" not in text and "</script><b>" not in text


def run(*arguments: str):
    return CliRunner().invoke(application(), ["report", *arguments])


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The lab's folder, with one small result of plan quick."""
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    figure = FIGURE + 'kind = "bars"\n'
    make.write(tmp_path / "results/quick/20261121-100000.jsonl", content(figure=figure))
    return tmp_path


def test_the_command_writes_page_and_every_figure(results):
    done = run()
    assert done.exit_code == 0, done.output
    folder = results / "report" / "quick-20261121-100000"
    assert done.output.strip() == str(folder / "index.html")
    names = {path.name for path in folder.iterdir()}
    for name in ("time-against-memory", "heat-map-time", "time-ratios", "one"):
        assert {f"{name}.png", f"{name}.csv"} <= names
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "heat-map-time.csv").open() as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == rows.HEADER
    found = {(row["cell"], row["allocator"]): float(row["value"]) for row in table}
    assert found["churn", "nearmalloc"] == 0.5 and found["phong", "tbb"] == 2


def test_one_figure_can_be_written_alone(results):
    target = results / "docs" / "figure.png"
    assert run("quick", "--figure", "time-against-memory", "-o", str(target)).exit_code == 0
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "none"), "no figure 'none'"),
        (("other",), "other: neither a file nor a plan that has results"),
        (("quick~1",), "there are 1 results"),
        (("--subject", "jemalloc"), "no results of allocator 'jemalloc'"),
    ],
)
def test_wrong_use_ends_with_2_and_says_why(results, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())


def test_a_chart_of_nothing_is_told(tmp_path):
    lines = content(figure=FIGURE + 'kind = "scatter"\nworkloads = ["phong"]\n')
    lines += [make.run_line("phong", "glibc", 3, failure="timed out")]
    analysis = analyse(tmp_path, lines)
    frame = frame_of(analysis)
    (found,) = planned.planned(analysis, frame)
    assert not found.panels and not theme.write_picture(found, frame, tmp_path / "x.png")
