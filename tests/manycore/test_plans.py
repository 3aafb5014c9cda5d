"""Plans run and repeat, peers run simulated, and the tables of the pages are made of the rows in
docs/data/manycore."""

import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearmanycore import calibrate, machines, places, plan, plot, simulate, subjects, validate
from nearmanycore.application import app
from nearmanycore.plan import PlanError, Series
from nearmanycore.simulate import Request, RunError
from nearmanycore.validate import Pair

DATA = places.ROOT / "docs" / "data" / "manycore"
PAGE = places.ROOT / "docs" / "manycore.md"


@pytest.mark.parametrize("name", plan.names())
def test_each_series_runs_under_nearmalloc(name: str) -> None:
    wanted = plan.load(name)
    named = machines.load(wanted.machine)
    near = subjects.find("near")[0]
    requests = []
    for series in wanted.series:
        assert set(series.processors or wanted.processors) <= set(
            range(1, named.machine.processors + 1)
        )
        keys = series.keys()
        threads = max(2, keys.least)
        few = ("--keys", "2000") if "--keys" in keys.arguments else ()
        requests.append(Request(series.name, keys, near, named, 2, threads, scale=0.01, more=few))
    failed = []

    def done(_: Request, result: object) -> None:
        if isinstance(result, RunError):
            failed.append(str(result))

    plan.run(requests, done)
    assert not failed
    print(f"cases: {len(requests)}")


@pytest.mark.parametrize("name", plan.names())
def test_allocators_of_plans_exist(name: str) -> None:
    wanted = plan.load(name)
    known = set(subjects.names())
    for names in [wanted.allocators, *(series.allocators or [] for series in wanted.series)]:
        assert {each.split("+")[0] for each in names} <= known


def test_a_switch_of_a_design_changes_what_a_run_counts() -> None:
    named = machines.load("xeon-e7-4x10")
    arguments = ["--threads", "{threads}", "--objects", "2000", "--size", "1024", "--rounds", "2"]
    keys = Series(name="switch", program="threadtest", arguments=arguments).keys()
    counted = []
    for subject in subjects.find("scalloc,scalloc+madvise:off"):
        record = simulate.run(Request("switch", keys, subject, named, 2, 2))
        counted.append(record["workload"]["design_madvise_calls"])
    assert counted[0] > 0 and counted[1] == 0
    print("cases: 2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "Invalid value"),
        ('title = "a"', "Field required"),
        ('title = "a"\nextra = 1', "title|extra|required"),
    ],
)
def test_malformed_plans_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=message):
        plan.load(str(path))


def test_unknown_plans_are_refused() -> None:
    with pytest.raises(PlanError, match="there is no plan none; there are: "):
        plan.load("none")
    with pytest.raises(PlanError, match="neither workload nor program"):
        Series(name="empty").keys()


SMALL = """
title = "small"
description = "two series"
machine = "xeon-8160x4"
processors = [1, 4]
allocators = ["near", "scalloc+span_pool:single"]
[[series]]
name = "threads"
workload = "threadtest"
[[series]]
name = "many threads"
workload = "neighbour-frees"
threads = 9
processors = [4]
"""


def rows_of(path: Path) -> list[dict[str, str]]:
    rows = []

    def done(_: Request, result: object) -> None:
        assert isinstance(result, dict), result
        rows.append(plan.row(result))

    plan.run(list(plan.requests(plan.load(str(path)), scale=0.2)), done)
    return rows


def test_a_plan_repeats(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    first, second = rows_of(path), rows_of(path)
    assert len(first) == 6
    for a, b in zip(first, second, strict=True):
        assert {**a, "host_s": ""} == {**b, "host_s": ""}
    assert [row["threads"] for row in first if row["series"] == "many threads"] == ["9", "9"]
    kept = tmp_path / "results.csv"
    plan.write(first, kept)
    assert plan.read(kept) == first
    table = plan.markdown(first)
    assert table.count("\n") == 2 + 4
    drawn = [plot.panels(first, tmp_path / f"{i}.svg").read_bytes() for i in range(2)]
    assert drawn[0] == drawn[1]


FREEING = """
title = "freeing"
description = "a tree whose nodes are freed"
machine = "xeon-8160x4"
processors = [2]
allocators = ["near"]
[[series]]
name = "tree"
program = "set_updates"
operations = 2000
arguments = ["--threads", "{threads}", "--operations", "{total}", "--keys", "1000"]
[[series]]
name = "timed"
program = "set_updates"
operations = 2000
arguments = [
  "--threads", "{threads}", "--operations", "{total}", "--keys", "1000", "--freeing-time", "1",
]
"""


def test_a_row_has_the_share_of_freeing_where_it_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "freeing.toml"
    path.write_text(FREEING, encoding="utf-8")
    tree, timed = rows_of(path)
    assert int(tree["epochs"]) > 0 and int(timed["peak_unreclaimed"]) > 0
    assert tree["freeing_share"] == "" and 0 < float(timed["freeing_share"]) < 1


def test_other_files_are_no_results(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(PlanError, match="holds no results"):
        plan.read(other)
    with pytest.raises(PlanError, match="there is no"):
        plan.read(tmp_path / "none.csv")


def test_a_switch_of_a_design_reaches_it() -> None:
    plain, switched = subjects.find("scalloc,scalloc+span_pool:single+madvise:off")
    assert plain.library == switched.library
    assert switched.environment == ("NEARMALLOC_DESIGN_OPTIONS=span_pool=single,madvise=off",)


@pytest.mark.parametrize("name", ["mimalloc2", "mimalloc3"])
def test_a_peer_from_its_crate_runs(tmp_path: Path, name: str) -> None:
    peer = subjects.find(name)[0]
    machine = machines.load("xeon-8160x4")
    command = [str(places.workload("threadtest")), "--threads", "4", "--objects", "400"]
    done = simulate.execute(machine, 4, 1, tmp_path, peer, command, 300)
    record = simulate.read(tmp_path, done, "threadtest")
    assert done.returncode == 0, done.stderr
    assert record["ended"] == "exit"
    assert record["events"] > 10_000


MEASURED = {
    "l1": 1.0, "l2": 4.0, "l3": 20.0, "memory": 100.0, "atomic": 6.0, "handover": 211.0,
    "system_call": 200.0, "fault_small": 900.0, "fault_huge": 104_400.0, "huge_pages": True,
    "unmap_page": 60.0, "interrupt_send": 900.0, "interrupt_take": 1500.0, "futex_wake": 1700.0,
    "futex_wait": 9000.0, "context_switch": 1200.0,
}  # fmt: skip


def test_costs_of_what_was_measured() -> None:
    costs = calibrate.costs(MEASURED)
    assert costs["zero_kibibyte"] == 50
    assert costs["fault_small"] == 700
    assert costs["transfer_core"] == 100
    assert costs["context_switch"] == 1000
    assert costs["idle_wake"] == 8000
    assert calibrate.costs({**MEASURED, "huge_pages": False})["zero_kibibyte"] == 50


def test_the_machine_file_of_what_was_measured_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "measured.toml"
    path.write_text(calibrate.machine_file(MEASURED), encoding="utf-8")
    assert machines.load(str(path)).machine.ns.transfer_core == 100


def pairs(simulated: list[float]) -> list[Pair]:
    return [
        Pair(workload, 1, allocator, real, simulated[index])
        for workload in ("a", "b")
        for index, (allocator, real) in enumerate(
            zip(validate.ALLOCATORS, (1.0, 2.0, 3.0, 4.0, 5.0), strict=True)
        )
    ]


def test_a_perfect_simulation_is_validated() -> None:
    found = validate.ratios(pairs([10.0, 20.0, 30.0, 40.0, 50.0]))
    assert validate.correlation(found) == pytest.approx(1)
    assert all(each.off == pytest.approx(1) for each in found)
    assert validate.is_validated(found, "a")
    assert not validate.is_validated(found, "c")


def test_a_wrong_simulation_is_not() -> None:
    found = validate.ratios(pairs([50.0, 40.0, 30.0, 20.0, 10.0]))
    assert validate.correlation(found) < -0.9
    assert not validate.is_validated(found, "a")
    said = validate.markdown(pairs([50.0, 40.0, 30.0, 20.0, 10.0]))
    assert "workloads with all of theirs: none" in said


def test_validation_is_kept(tmp_path: Path) -> None:
    kept = pairs([1.0, 2.0, 3.0, 4.0, 5.0])
    validate.write(kept, tmp_path / "v.csv")
    assert [dataclasses.astuple(p) for p in validate.read(tmp_path / "v.csv")] == [
        dataclasses.astuple(p) for p in kept
    ]


def invoked(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_commands_of_the_readme(tmp_path: Path) -> None:
    text = (
        'title = "t"\ndescription = "d"\nmachine = "epyc-256"\nprocessors = [1]\n'
        'allocators = ["near"]\n[[series]]\nname = "churn"\nworkload = "thread-churn"\n'
    )
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    words = ["--processors", "1", "--scale", "0.01", "--out", str(tmp_path)]
    said = invoked("plan", str(tmp_path / "own.toml"), *words)
    assert "| churn | near |" in said
    table = invoked("table", str(tmp_path / "results.csv"))
    assert table.splitlines()[0] in said
    assert (tmp_path / "results.svg").is_file()


def test_this_machine_is_measured(tmp_path: Path) -> None:
    invoked("calibrate", "--out", str(tmp_path / "here.toml"))
    assert machines.load(str(tmp_path / "here.toml")).machine.ns.transfer_core > 0


# test_published.py reads those of `goals`, and another test those of docs/papers.md.
OTHERS = ("goals-", "documents-")
PAGES = [path for path in sorted(DATA.glob("*.csv")) if not path.stem.startswith(OTHERS)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_tables_of_the_pages_are_made_of_their_rows(path: Path, tmp_path: Path) -> None:
    if path.stem == "validation":
        text = validate.markdown(validate.read(path))
    else:
        rows = plan.read(path)
        text = plan.markdown(rows)
        drawn = plot.panels(rows, tmp_path / "drawn.svg").read_text(encoding="utf-8")
        kept = path.with_suffix(".svg").read_text(encoding="utf-8")
        # Another version of matplotlib draws the same curves in other words.
        if version_of(drawn) == version_of(kept):
            assert drawn == kept
    assert text in PAGE.read_text(encoding="utf-8")


def version_of(svg: str) -> str:
    return svg.partition("Matplotlib v")[2].partition(",")[0]
