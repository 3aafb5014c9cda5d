"""Plans become the right cells; an error in one names its file and key."""

import hashlib
import os

import pytest

import fake_workloads
from nearlab import peers, places
from nearlab.plan import cells, listing, plan, workloads
from nearlab.plan.plan import PlanError
from nearlab.runs import command as run

TRUE_LAB = str(places.lab_build())
ONE = '[[workload]]\nprogram = "steady"\n'


@pytest.fixture(autouse=True)
def fakes(tmp_path, monkeypatch):
    monkeypatch.setenv("NEAR_LAB_BUILD", str(fake_workloads.build(tmp_path / "lab")))


def parse(tables: str, head: str = "") -> plan.Plan:
    return plan.parse(fake_workloads.plan_text(tables, head), "try.toml")


def names(tables: str, head: str = "") -> list[str]:
    return [cell.name for cell in cells.of_plan(parse(tables, head))]


def test_a_plan_gives_cells_by_threads_and_by_the_swept_option():
    assert names(ONE) == ["steady"]
    assert names(ONE + 'name = "a b"\nthreads = [1, 4]') == ["a b t=1", "a b t=4"]
    assert names(ONE + "sweep = { size = [16, 64] }") == ["steady size=16", "steady size=64"]
    both = names(ONE + "threads = [1, 2]\nsweep = { size = [16, 64] }")
    assert both == [f"steady t={t} size={size}" for t in (1, 2) for size in (16, 64)]


def test_each_makes_a_workload_of_every_combination_in_the_place_of_its_table():
    family = ONE + 'name = "{size} of {threads}"\ngroup = "g {size}"\n'
    family += "each = { size = [16, 64], threads = [1, 2] }\n"
    found = cells.of_plan(parse(ONE + family + '[[workload]]\nprogram = "slow"'))
    of_family = ["16 of 1", "16 of 2", "64 of 1", "64 of 2"]
    assert [cell.name for cell in found] == ["steady", *of_family, "slow"]
    assert [cell.group for cell in found[1:5]] == ["g 16", "g 16", "g 64", "g 64"]
    assert found[3].argv[3:] == ("--size", "64", "--threads", "1") and found[3].threads == 1


def test_each_fills_a_figures_text():
    text = EACH + '[[figure]]\nname = "f-{n}"\nkind = "bars"\nworkloads = ["a {n}"]\n'
    one, two = parse(text + 'title = "{n} {other}"\neach = { n = [1, 2] }').keys.figure
    assert (one.name, one.workloads, one.title) == ("f-1", ["a 1"], "1 {other}")
    assert (two.name, two.workloads, two.title) == ("f-2", ["a 2"], "2 {other}")


def test_a_cell_holds_the_command_and_what_the_plan_says_of_it():
    text = ONE + 'options = { size = 8 }\nthreads = [99]\ngroup = "g"\nlimit_mib = 3\nrounds = 4'
    (cell,) = cells.of_plan(parse(text, "timeout_s = 7"))
    program = str(places.workload_dir() / "steady")
    assert cell.argv == (program, "--preset", "two-cores", "--size", "8", "--threads", "99")
    assert (cell.rounds, cell.timeout_s, cell.group, cell.threads) == (4, 7, "g", 99)
    assert cell.environment == {"LIMIT_MIB": "3"} and cell.oversubscribed
    assert cell.takes("limit") and cells.of_plan(parse(ONE), rounds=9)[0].rounds == 9


def test_threads_beside_those_of_the_option_count_as_oversubscription(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    one, two = cells.of_plan(parse(ONE + "threads = [1, 2]\nthreads_each = 2"))
    assert not one.oversubscribed and two.oversubscribed
    assert not any(cell.oversubscribed for cell in cells.of_plan(parse(ONE + "threads = [1, 2]")))


def test_a_limit_of_nothing_keeps_the_limit_allocator_out():
    (cell,) = cells.of_plan(parse(ONE + "limit_mib = 0"))
    assert not cell.takes("limit") and cell.takes("glibc")


def test_true_is_a_bare_flag_and_false_is_none():
    for value, words in (("true", ("--size",)), ("false", ())):
        (cell,) = cells.of_plan(parse(ONE + f"options = {{ size = {value} }}"))
        assert cell.argv[3:] == words


def test_a_real_program_is_a_cell_without_arguments():
    (cell,) = cells.of_plan(parse('[[workload]]\nprogram = "program:gcc"'))
    assert (cell.name, cell.real_program, cell.argv) == ("program:gcc", "gcc", ())


def test_all_allocators_and_the_hash_of_the_text():
    found = parse(ONE, 'allocators = ["all"]')
    assert found.allocators == peers.known()
    assert found.hash == hashlib.sha256(found.text.encode()).hexdigest()


def test_a_workload_may_have_allocators_of_its_own():
    more = '\n[[workload]]\nprogram = "steady"\nname = "b"\n'
    own = 'allocators = ["glibc", "scalloc+madvise:off"]'
    found = parse(ONE + more + own, 'allocators = ["glibc", "limit"]')
    assert found.allocators == ("glibc", "limit", "scalloc+madvise:off")
    first, second = cells.of_plan(found)
    assert [first.takes(name) for name in found.allocators] == [True, True, False]
    assert [second.takes(name) for name in found.allocators] == [True, False, True]
    assert first.takes("of-ones-own") and not second.takes("of-ones-own")
    own = 'allocators = ["glibc", "mine=/lib/libmine.so"]'
    first, second = cells.of_plan(parse(ONE + more + own, 'allocators = ["glibc"]'))
    assert second.takes("mine") and not first.takes("mine")


def test_huge_pages_of_the_plan_are_those_of_all_rows_that_name_none():
    more = '\n[[workload]]\nprogram = "steady"\nname = "b"\nhuge_pages = ["madvise"]\n'
    figure = '[[figure]]\nname = "f"\nkind = "lines"\nx = "huge_pages"\nworkloads = ["steady"]\n'
    given = '[[program]]\nname = "c"\nargv = ["true"]\n'
    found = cells.of_plan(parse(ONE + more + figure + given, 'huge_pages = ["always", "never"]'))
    names = [cell.name.replace("huge_pages=", "") for cell in found]
    assert names == ["steady always", "steady never", "b madvise", "c always", "c never"]
    assert [cell.x for cell in found][2:4] == [{"huge_pages": "madvise"}, {"huge_pages": "always"}]


def test_who_is_named_on_the_command_line_runs_everywhere():
    own = '\n[[workload]]\nprogram = "steady"\nname = "b"\nallocators = ["scalloc+madvise:off"]'
    found = parse(ONE + own, 'allocators = ["glibc"]')
    named = run.Choice(allocators=("scalloc+madvise:off",))
    assert [cell.takes("scalloc+madvise:off") for cell in run.chosen_cells(found, named)] == [
        *(True, True),
    ]


WRONG = {
    "rounds = 0": "try.toml: rounds: ",
    'rounds = "two"': "try.toml: rounds: ",
    "colour = 1": "try.toml: colour: unknown key",
    'allocators = ["bumpmalloc"]': "try.toml: allocators: unknown 'bumpmalloc'",
    'allocators = ["glibc", "glibc"]': "try.toml: allocators: 'glibc' is given 2",
    'allocators = ["glibc=/x.so"]': "try.toml: allocators: 'glibc=/x.so' is not NAME=LIBRARY",
    'allocators = ["a=/x.so", "a=/y.so"]': "try.toml: allocators: 'a' is given 2",
    'allocators = ["all", "glibc"]': "try.toml: allocators: unknown 'all'",
    "allocators = []": "try.toml: allocators: ",
    'preset = "huge"': "try.toml: preset: ",
    'huge_pages = ["sometimes"]': "try.toml: huge_pages[0]: ",
    'name = "../x"': "try.toml: name: ",
    "timeout_s = 0": "try.toml: timeout_s: ",
}
WRONG_WORKLOADS = {
    ONE + 'allocators = ["scalloc+madvise"]': "workload[0].allocators: unknown 'scalloc+madvise'",
    "": "try.toml: workload: ",
    '[[workload]]\nname = "a"': "try.toml: workload[0].program: ",
    '[[workload]]\nprogram = "gone"': "workload[0].program: there is no workload 'gone'",
    '[[workload]]\nprogram = "larson_"': "there are: arguments, crash",
    '[[workload]]\nprogram = "program:gone"': "unknown 'program:gone'; there are: python",
    '[[workload]]\nprogram = "program:gcc"\nthreads = [1]': "threads.threads: a real program",
    ONE + "options = { sise = 1 }": "workload[0].options.sise: steady has no such option; it has",
    ONE + "sweep = { sise = [1] }": "workload[0].sweep.sise: steady has no such option",
    ONE + "sweep = { size = [1], threads = [1] }": "workload[0].sweep: ",
    ONE + "sweep = { size = [1] }\noptions = { size = 1 }": "sweep.size: is given twice",
    ONE + "threads = [1]\noptions = { threads = 1 }": "options.threads: is given twice",
    ONE + 'options = { preset = "paper" }': "options.preset: is the plan's",
    ONE + "options = { size = [1] }": "try.toml: workload[0].options.size: ",
    ONE + "threads = [0]": "try.toml: workload[0].threads[0]: ",
    ONE + "thread = 1": "try.toml: workload[0].thread: unknown key",
    ONE + ONE: "try.toml: workload.name: 'steady' is the name of 2",
}
EACH = ONE + 'name = "a {size}"\neach = { size = [1, 2] }\n'
WRONG_WORKLOADS |= {
    ONE + "each = {}": "try.toml: workload[0].each: is a table of lists",
    ONE + "each = { size = [] }": "workload[0].each.size: is a list of values",
    ONE + "each = { size = [1.5] }": "workload[0].each.size: its values are words or whole numbers",
    EACH + "options = { size = 3 }": "workload[0].each.size: is given twice",
    EACH + "sweep = { size = [3] }": "workload[0].sweep.size: is given twice",
    EACH.replace(" {size}", ""): "workload.name: 'a' is the name of 2",
    EACH.replace("each = { size", "each = { sise"): "workload[0].options.sise: steady has no such",
    EACH + ONE + "thread = 1": "try.toml: workload[1].thread: unknown key",
    EACH + ONE + "options = { sise = 1 }": "try.toml: workload[1].options.sise: steady has no",
}
FIGURE = ONE + 'threads = [1]\n[[figure]]\nname = "f"\nkind = "{}"\nworkloads = ["st*"]\n'
WRONG_FIGURES = {
    FIGURE.format("lines"): "figure[0].x: is one of threads",
    FIGURE.format("lines") + 'x = "size"': "figure[0].x: is one of threads",
    FIGURE.format("lines") + 'x = "huge_pages"': "figure[0].x: is one of threads",
    FIGURE.format("bars") + 'x = "threads"': "figure[0].x: a figure of bars has none",
    FIGURE.format("pie"): "figure[0].kind: ",
    FIGURE.format("curve"): "figure[0].series: ",
    FIGURE.format("bars") + 'relative_to = "bumpmalloc"': "figure[0].relative_to: unknown",
    FIGURE.format("bars").replace("st*", "x*"): "figure[0].workloads: no workload is called 'x*'",
}
WRONG_FIGURES |= {
    EACH + FIGURE.format("bars") + 'each = { n = [1, "x"] }': "figure.name: 'f' is the name of 2",
    EACH + FIGURE.format("bars").replace("st*", "a {n}") + "each = { n = [1, 3] }": "called 'a 3'",
}
COMPARED = FIGURE.replace("curve", "") + 'x = "threads"\nby = "workload"\n'
WRONG_FIGURES |= {
    COMPARED.format("curve"): "figure[0].x: a figure of curve has none",
    COMPARED.replace('x = "threads"', "").format("scatter"): "by: a figure of scatter compares no",
    COMPARED.format("lines") + 'relative_to = "glibc"': "no workload is called 'glibc'",
    COMPARED.format("lines") + 'allocators = ["gone"]': "figure[0].allocators: unknown 'gone'",
    COMPARED.format("lines") + 'y = "speedup"': "figure[0].y: a speed-up is an allocator's",
    COMPARED.replace('x = "threads"', "").format("heatmap"): "relative_to: is needed to compare",
    FIGURE.format("bars") + 'allocators = ["glibc"]': "allocators: has every allocator where",
}
TARGET = ONE + '[[target]]\nname = "g"\nkind = "{}"\nworkloads = ["st*"]\nat_most = 1\n'
WRONG_FIGURES |= {
    TARGET.format("best"): "target[0].kind: ",
    TARGET.format("mean").replace("st*", "x*"): "target[0].workloads: no workload is called 'x*'",
    TARGET.format("mean") + 'allocator = "gone"': "target[0].allocator: unknown 'gone'",
    TARGET.format("mean") + 'relative_to = "gone"': "target[0].relative_to: unknown 'gone'",
    TARGET.format("mean") + "slack = 1": "target[0].slack: is what `each` has",
}
TIMELINE = '[[workload]]\nprogram = "recorder"\nthreads = [2]\n[[timeline]]\nname = "t"\n'
WRONG_TIMELINES = {
    TIMELINE + 'cell = "recorder t=4"': "timeline t: no cell is called 'recorder t=4'",
    TIMELINE.replace("recorder", "steady") + 'cell = "steady t=2"': "steady records none",
}


@pytest.mark.parametrize("head", WRONG)
def test_a_wrong_key_is_named(head):
    with pytest.raises(PlanError) as error:
        parse(ONE, head)
    assert str(error.value).startswith(WRONG[head]) and "\n" not in str(error.value)


@pytest.mark.parametrize("tables", [*WRONG_WORKLOADS, *WRONG_FIGURES])
def test_a_wrong_table_is_named(tables):
    with pytest.raises(PlanError) as error:
        parse(tables)
    assert (WRONG_WORKLOADS | WRONG_FIGURES)[tables] in str(error.value)
    assert "\n" not in str(error.value)


def test_right_figures_pass():
    for kind, more in (("lines", 'x = "threads"'), ("curve", 'series = "curve"'), ("bars", "")):
        assert parse(FIGURE.format(kind) + more).keys.figure[0].kind == kind
    for more in ('relative_to = "steady"', 'allocators = ["glibc"]'):
        assert parse(COMPARED.format("lines") + more).keys.figure[0].by == "workload"


@pytest.mark.parametrize("tables", WRONG_TIMELINES)
def test_a_timeline_that_cannot_be_is_refused(tables):
    with pytest.raises(PlanError) as error:
        names(tables)
    assert WRONG_TIMELINES[tables] in str(error.value) and "\n" not in str(error.value)


def test_a_timeline_is_of_a_cell_and_of_the_allocators_it_names():
    text = TIMELINE + 'cell = "recorder t=2"\n'
    (cell,) = cells.of_plan(parse(text))
    assert cells.recorded(parse(text), cell, "nearmalloc")
    chosen = parse(text + 'allocators = ["glibc"]')
    assert [cells.recorded(chosen, cell, name) for name in ("glibc", "nearmalloc")] == [True, False]
    with pytest.raises(PlanError, match="timeline.0..allocators: unknown 'gone'"):
        parse(text + 'allocators = ["gone"]')


def test_what_is_no_toml_and_what_is_not_there_is_told(tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("rounds = = 1")
    with pytest.raises(PlanError, match=r"bad\.toml: not TOML: .*line 1"):
        plan.load(bad)
    with pytest.raises(PlanError, match="there is no plan nothing; there are: .*quick"):
        plan.find("nothing")


def test_a_workload_that_is_written_but_not_built_is_told_so():
    with pytest.raises(PlanError, match="threadtest is not built"):
        parse('[[workload]]\nprogram = "threadtest"')


def test_workloads_make_a_plan_of_their_own():
    found = plan.ad_hoc(["steady", "slow"])
    assert (found.name, found.keys.rounds) == ("steady-slow", 5)
    assert [cell.name for cell in cells.of_plan(found)] == ["steady", "slow"]


def test_two_cells_of_one_name_are_refused():
    text = ONE + 'threads = [1]\n[[workload]]\nprogram = "slow"\nname = "steady t=1"'
    with pytest.raises(PlanError, match="two cells are called 'steady t=1'"):
        names(text)


def test_the_published_workloads_are_those_of_the_plan_quick():
    found = cells._published()
    assert {"larson", "threadtest"} <= found and not {"churn", "sweep"} & found


def test_every_row_belongs_to_a_group(monkeypatch):
    text = ONE + 'origin = "published"\ntuned = true\n[[workload]]\nprogram = "slow"'
    first, second = cells.of_plan(parse(text))
    assert (first.origin, first.tuned) == ("published", True)
    assert (second.origin, second.tuned) == ("own", False)
    (cell,) = cells.of_plan(parse(ONE, 'origin = "published"'))
    assert cell.origin == "published"
    monkeypatch.setattr(cells, "_published", lambda: frozenset(["slow"]))
    first, second = cells.of_plan(parse(ONE + '[[workload]]\nprogram = "slow"'))
    assert (first.origin, second.origin) == ("own", "published")
    (cell,) = cells.of_plan(parse('[[workload]]\nprogram = "slow"', 'origin = "own"'))
    assert cell.origin == "own"
    (cell,) = cells.of_plan(parse('[[workload]]\nprogram = "program:gcc"'))
    assert cell.origin == "program"
    with pytest.raises(PlanError, match="origin"):
        parse(ONE + 'origin = "ours"')


def test_a_true_workload_tells_its_options(monkeypatch):
    monkeypatch.setenv("NEAR_LAB_BUILD", TRUE_LAB)
    assert {"preset", "threads", "size", "objects", "rounds"} <= workloads.options("threadtest")
    assert "allocates" in workloads.description("threadtest")


def test_the_list_names_what_is_there_and_what_is_missing(capsys):
    listing.list_all()
    printed = capsys.readouterr().out
    for word in ("quick", "steady", "pretends to work", "program:redis", "nearmalloc"):
        assert word in printed


@pytest.mark.parametrize("path", places.plan_files(), ids=lambda path: path.stem)
def test_the_plans_of_the_lab_are_right(monkeypatch, path):
    monkeypatch.setenv("NEAR_LAB_BUILD", TRUE_LAB)
    found = plan.load(path)
    assert found.name == path.stem and cells.of_plan(found)


def test_the_profilers_cost_is_that_of_the_rows_of_two_plans(monkeypatch):
    monkeypatch.setenv("NEAR_LAB_BUILD", TRUE_LAB)

    def rows(name):
        found = plan.load(plan.find(name)).rows
        return [(row.label, row.program, row.options, row.threads_each) for row in found]

    keys = plan.load(plan.find("profile-overhead")).keys
    quick, programs = rows("quick"), rows("programs")
    assert rows("profile-overhead") == quick + programs
    judged = [target.workloads for target in keys.target]
    assert judged == 4 * [[row[0] for row in programs]] + 2 * [[row[0] for row in quick]]
    pairs = {(target.allocator, target.relative_to) for target in keys.target}
    assert pairs == {(one, "nearmalloc") for one in keys.allocators[1:]}
