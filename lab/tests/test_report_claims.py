"""A report's claims, and the results that it declares meaningless: subject, limit, means, figures
that have no subject or no numbers on their axis."""

from types import SimpleNamespace

import pytest

import results_file as make
from nearlab.report import build, charts, figures, tables, theme
from nearlab.report.analysis import MEMORY, TIME
from nearlab.report.verdict import _ordinal, for_memory, verdict
from reporting import FIGURE, SECONDS, analyse, content, drawn, frame_of, threads_content


@pytest.mark.parametrize("names", [("glibc", "tbb"), ('my "own"', "limit")])
def test_every_figure_is_drawn_whoever_takes_part(tmp_path, names):
    lines = make.rich_lines(["nearmalloc" if "own" in name else name for name in names], rounds=5)
    for line in [*lines, *lines[0]["allocators"]]:
        for key in ("allocator", "name"):
            if line.get(key) == "nearmalloc":
                line |= {key: 'my "own"', "group": "ours"}
    analysis = analyse(tmp_path, lines)
    frame = frame_of(analysis)
    found = build.contents_of(analysis, frame).all()
    assert len(found) >= 10
    for figure in found:
        assert theme.write_picture(figure, frame, tmp_path / f"{figure.name}.png"), figure.name


@pytest.mark.parametrize(
    ("own", "subject"), [({"mine"}, "mine"), ({"mine", "other"}, None), (set(), None)]
)
def test_the_only_library_of_ones_own_is_the_subject(tmp_path, own, subject):
    names = ("glibc", "mine", "other")
    lines = content({"churn": {name: [1] * 5 for name in names}}, names=names)
    for allocator in lines[0]["allocators"]:
        allocator["group"] = "ours" if allocator["name"] in own else "peer"
    assert analyse(tmp_path, lines).subject == subject


def limited(seconds: dict[str, dict[str, list]] = SECONDS) -> list[dict]:
    """With a limit that tbb beats in phong alone: there the limit misses the cache."""
    found = {cell: by | {"limit": [0.5] * 5} for cell, by in seconds.items()}
    found["phong"] = found["phong"] | {"limit": [3] * 5}
    return content(found, names=("nearmalloc", "glibc", "tbb", "limit"))


def test_a_cell_where_an_allocator_beats_the_limit_leaves_its_figure_by_name(tmp_path):
    analysis = analyse(tmp_path, limited())
    figure = figures.ratios(analysis, frame_of(analysis))[-1]
    assert figure.name == "limit-ratios"
    assert figure.notes[0] == "Left out, faster than the limit: phong (glibc 0.33)."
    assert {row.allocator: row.value for row in figure.rows}["tbb"] == pytest.approx(128**0.5)
    assert "no allocator can be faster" not in figure.caption and "2 cells" in figure.caption


def test_the_memory_of_the_limit_means_nothing(tmp_path):
    scatter = FIGURE + 'kind = "scatter"\nworkloads = ["*"]\n'
    bars = FIGURE.replace("one", "two") + 'kind = "bars"\nworkloads = ["*"]\ny = "peak_rss_kib"\n'
    lines = limited()
    lines[0]["plan_toml"] += scatter + bars
    for line in lines[1:]:
        line["metrics"]["peak_rss_kib"] = line["metrics"]["memory_kib"]
    analysis = analyse(tmp_path, lines)
    frame = frame_of(analysis)
    contents = build.contents_of(analysis, frame)
    rows = [row for figure in contents.all() for row in figure.rows if row.allocator == "limit"]
    memory = [row for row in rows if row.metric.endswith("_kib")]
    assert {(row.value, row.note) for row in memory} == {(None, "no meaning")}
    assert "limit" not in {row.allocator for row in contents.scatter.rows}
    assert "limit" not in {row.allocator for row in contents.planned[0].rows}
    ranks = {row[1]: row for row in tables.ranks(analysis, "own").rows}
    assert ranks["limit"][5] == "no meaning" and ranks["limit"][2] != "no meaning"
    assert charts.heat_word("no meaning") == "–"


def test_the_verdict_says_in_how_many_cells_the_subject_failed(tmp_path):
    assert "It failed in none of 3 cells." in verdict(analyse(tmp_path, content())).sentence
    lines = [*content(), make.run_line("phong", "nearmalloc", 2, failure="timed out")]
    found = verdict(analyse(tmp_path, lines))
    assert found.sentence.startswith("nearmalloc completed 2 of 3 cells: too few for a mean;")
    assert "the fastest in 2 of 2" in found.sentence
    assert "It failed in 1 of 3 cells." in found.sentence and len(found.wins) == 4


@pytest.mark.parametrize("who", ["nearmalloc", "glibc"])
def test_a_duel_needs_enough_runs_of_both(tmp_path, who):
    seconds = {name: dict(found) for name, found in SECONDS.items()}
    seconds["larson"][who] = seconds["larson"][who][:4]
    lines = content(seconds)
    duels = {duel.cell: duel.rival for duel in analyse(tmp_path, lines).duels(TIME)}
    assert duels == {"churn": "glibc", "phong": "glibc"}


def test_the_memory_of_an_insensitive_program_is_its_allocators(tmp_path):
    count = {"kind": "count", "cell": "phong", "allocator": "glibc", "malloc_share": 0.005}
    analysis = analyse(tmp_path, [*content(), count])
    assert analysis.common(TIME) == ["churn", "larson"]
    assert analysis.common(MEMORY) == ["churn", "larson", "phong"]
    assert len(analysis.duels(MEMORY)) == 3
    time, memory = figures.ratios(analysis, frame_of(analysis))
    assert "workloads, 2 cells" in time.caption and "workloads, 3 cells" in memory.caption
    assert "2 cells, for memory 3 with phong, that all" in verdict(analysis).sentence


def test_as_many_cells_for_time_and_for_memory_may_be_others(tmp_path):
    seconds = {name: dict(found) for name, found in SECONDS.items()}
    count = {"kind": "count", "cell": "phong", "allocator": "glibc", "malloc_share": 0.005}
    empty = {"kind": "empty", "allocator": "glibc", "memory_kib": [1024] * 5}
    seconds["phong"]["glibc"] = [9] * 5  # the other heaps are under 4 MiB
    analysis = analyse(tmp_path, [*content(seconds), count, empty])
    assert analysis.common(TIME) == ["churn", "larson"] and analysis.common(MEMORY) == ["phong"]
    told = "2 cells, for memory 1 with phong and without churn, larson"
    assert told in verdict(analysis).sentence
    assert told in figures.time_against_memory(analysis, frame_of(analysis)).caption


@pytest.mark.parametrize(
    ("time", "memory", "told"),
    [
        ("abcd", "abce", "for memory 4 with e and without d"),
        ("ab", "ba", ""),
        ("abcdefg", "g", "for memory 1 without 6 others"),
    ],
)
def test_the_cells_for_memory_are_named_if_they_are_others(time, memory, told):
    cells = {TIME: list(time), MEMORY: list(memory)}
    analysis = SimpleNamespace(common=lambda metric, origin: cells[metric])
    assert for_memory(analysis, "own") == told


def test_means_say_how_many_cells_are_oversubscribed(tmp_path):
    lines = content()
    lines[0]["cells"][1]["oversubscribed"] = True
    analysis = analyse(tmp_path, lines)
    frame = frame_of(analysis)
    told = "3 cells (1 of 3 oversubscribed)"
    for figure in (figures.time_against_memory(analysis, frame), *figures.ratios(analysis, frame)):
        assert told in figure.caption
    assert told in verdict(analysis).sentence


def test_words_on_the_axis_keep_their_order(tmp_path):
    kinds = ["six", "eight", 9]
    cells = [make.cell("shbench", x={"kind": kind}, threads=4) for kind in kinds]
    figure = FIGURE + 'kind = "lines"\nx = "kind"\n'
    lines = [make.plan_line(["glibc"], cells, figures=figure)]
    lines += [
        make.run_line(cell["cell"], "glibc", number, {"seconds": 2.0})
        for number in range(1, 6)
        for cell in cells
    ]
    found = drawn(tmp_path, "", lines)
    axis = found.panels[0].chart.to_dict()["layer"][0]["encoding"]["x"]
    assert (axis["type"], axis["sort"]) == ("ordinal", ["six", "eight", "9"])
    frame = frame_of(analyse(tmp_path, lines))
    assert theme.write_picture(found, frame, tmp_path / "x.png")
    assert [row[1] for row in tables.numbers(found.rows).rows] == ["six", "eight", "9.00"]


def test_a_speed_up_says_what_it_is_relative_to(tmp_path):
    lines = threads_content(FIGURE + 'kind = "lines"\nx = "threads"\ny = "speedup"\n')
    assert drawn(tmp_path, "", lines).notes == ()
    without = [line for line in lines if line.get("cell") != "larson t=1"]
    del without[0]["cells"][0]
    assert drawn(tmp_path, "", without).notes == ("Relative to glibc in larson t=2.",)
    other = [line for line in without if line.get("allocator") != "glibc"]
    assert drawn(tmp_path, "", other).notes == ("Relative to tbb in larson t=2.",)


def test_the_environment_of_an_allocator_is_told(tmp_path):
    lines = content()
    lines[0]["allocators"][2]["environment"] = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
    table = tables.versions(analyse(tmp_path, lines).record)
    column = table.heading.index("environment")
    assert [row[column] for row in table.rows] == ["–", "–", "GLIBC_TUNABLES=glibc.pthread.rseq=0"]


def test_ordinals():
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 22, 111)
    found = [_ordinal(number, [number]) for number in numbers]
    assert found == "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 111th".split()
