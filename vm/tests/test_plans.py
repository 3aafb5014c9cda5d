"""Plans of the NUMA machine: read, run by a guest with counts that the test sets, compared, shown.
No QEMU is needed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fake_guest import guest_that_counts
from nearvm import comparisons, folders, plan_figure, plan_results, plans
from nearvm.application import app
from nearvm.plans import PlanError, parse

PLAN = """\
description = "d"
topologies = ["4n"]
cases = ["larson", "threadtest"]
allocators = ["nearmalloc", "glibc"]
seeds = 3
[floors]
remote = 1000
[[compare]]
reason = "a reason"
cases = ["larson"]
at_most = 0.5
"""
OURS = "libnearmalloc.so"
FEW, MANY = [2000, 2010, 2020], [9000, 9100, 9200]

# --- files ----------------------------------------------------------------------------------------


def test_every_plan_of_the_lab_is_right():
    found = {name: plans.load(name).keys for name in plans.names()}
    assert {"remote-accesses", "remote-accesses-quick"} <= set(found)
    keys = found["remote-accesses"]
    assert keys.topologies == ["4n", "8n"] and keys.seeds == 5
    assert len(keys.cases) >= 6 and len(keys.allocators) >= 5


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"4n"', '"4n", "9n"', "topologies: there is no topology '9n'"),
        ('"threadtest"]', '"nothing"]', "cases: there is no case 'nothing'"),
        ('"threadtest"]', '"audit"]', "cases: audit is not counted"),
        ('"glibc"]', '"glibc", "streamflow"]', "allocators: unknown 'streamflow'"),
        ('"glibc"]', '"jemalloc"]', "baseline: there is no 'glibc'"),
        ("seeds = 3", "seeds = 0", "seeds: input should be greater"),
        ("remote =", "distance =", "floors: there is no 'distance'"),
        ('["larson"]\n', '["churn"]\n', "compare[0].cases: there is no 'churn'"),
        ("at_most = 0.5", 'others = ["tbb"]', "compare[0].others: there is no 'tbb'"),
        ("at_most = 0.5", 'others = ["nearmalloc"]', "nearmalloc is compared with itself"),
        ("at_most = 0.5", 'topologies = ["2n"]', "compare[0].topologies: there is no '2n'"),
        ("at_most = 0.5", 'number = "seconds"', "compare[0].number: there is no 'seconds'"),
        ("at_most = 0.5", "at_most = 0.0", "compare[0].at_most: input should be greater"),
        ("at_most = 0.5", "colour = 1", "compare[0].colour: unknown key"),
        ("seeds = 3", "seeds = 3 =", "not TOML"),
    ],
)
def test_what_is_wrong_with_a_plan_is_named(old, new, complaint):
    assert PLAN.count(old) == 1
    with pytest.raises(PlanError, match="^try: ") as caught:
        parse(PLAN.replace(old, new), "try")
    assert complaint in str(caught.value) and "\n" not in str(caught.value)


# --- comparisons ----------------------------------------------------------------------------------


def verdict_of(allocator: str, seed: int, remote: int, case: str, outcome: str = "pass") -> dict:
    heap = {"remote": remote, "accesses": 9 * remote, "local_misses": 1, "remote_misses": 1}
    made = {"topology": "4n", "case": case, "allocator": allocator, "seed": seed, "result": None}
    pages = dict.fromkeys(("all_4k", "all_2m", "cpus_4k", "cpus_2m"), 3)
    cache = {"kib": 256, "ways": 8, "line": 64}
    counts = {"heap": heap | {"bounces": 0}, "pages": pages, "cache": cache}
    return made | {"outcome": outcome, "counts": counts, "guest": {"kernel": "6"}, "why": []}


def runs_of(allocator: str, *remote: int, case: str = "larson") -> list[dict]:
    return [verdict_of(allocator, seed, number, case) for seed, number in enumerate(remote)]


def compared(verdicts: list[dict], text: str = PLAN) -> comparisons.Compared:
    (found,) = comparisons.judged(parse(text, "try"), verdicts)
    return found


def test_medians_are_compared_and_a_shortfall_has_both_numbers():
    other = runs_of("glibc", *MANY)
    assert compared([*runs_of("nearmalloc", 4500, 4550, 9999), *other]).outcome == "holds"
    short = compared([*runs_of("nearmalloc", 1, 4551, 4552), *other])
    assert short.outcome == "falls short"
    text = "4n larson: nearmalloc has 4,551 ±100 %! remote, glibc 9,100 ±1 %"
    assert str(short) == f"{text}: 0.5 times, at most 0.5 (a reason)"


def test_what_is_not_more_than_the_floor_is_noise():
    other = runs_of("glibc", 3, 3, 3)
    assert compared([*runs_of("nearmalloc", 1000, 1000), *other]).outcome == "noise"
    assert compared([*runs_of("nearmalloc", 0, 0), *runs_of("glibc", 0, 0)]).outcome == "noise"
    assert compared([*runs_of("nearmalloc", 1001, 1001), *other]).outcome == "falls short"
    other = runs_of("glibc", 1001, 1001)
    assert compared([*runs_of("nearmalloc", 501, 501), *other]).outcome == "noise"
    assert compared([*runs_of("nearmalloc", 500, 500), *other]).outcome == "holds"


def test_beyond_the_spread_the_lowest_run_is_held_against_the_highest():
    text = PLAN.replace("at_most = 0.5", "beyond_spread = true")
    other = runs_of("glibc", *MANY)
    assert compared([*runs_of("nearmalloc", 9200, 9800, 9900), *other], text).outcome == "holds"
    beyond = compared([*runs_of("nearmalloc", 9201, 9201, 9201), *other], text)
    assert beyond.outcome == "falls short"


def test_a_run_that_did_not_pass_is_compared_with_nobody():
    other = runs_of("glibc", *MANY)
    failed = [verdict_of("nearmalloc", 4, 1, "larson", "fail")]
    found = compared([*failed, *other])
    assert found.outcome == "not made" and "no run of nearmalloc passed" in str(found)
    one = compared([*failed, *runs_of("nearmalloc", 2000), *other]).own
    assert (one.value, one.runs, one.asked) == (2000, 1, 2)


# --- the commands ---------------------------------------------------------------------------------


def command(*words: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, words)
    return ended.exit_code, ended.output


@pytest.fixture
def plan_file(tmp_path) -> str:
    path = tmp_path / "try.toml"
    path.write_text(PLAN)
    return str(path)


@pytest.fixture
def undrawn(monkeypatch):
    """Skips the figure, which takes longer than all the rest."""
    monkeypatch.setattr(plan_figure, "draw", lambda *_: None)


def lines_of(folder: Path) -> list[dict]:
    (kept,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in kept.read_text().splitlines()]


def test_a_plan_is_run_kept_compared_and_shown(fake, plan_file):
    guest_that_counts(fake, {OURS: FEW, "glibc": MANY})
    status, out = command("plan", plan_file)
    assert status == 0 and "4n threadtest glibc seed 3: pass" in out and "12 passed, 0" in out
    assert "1 comparisons hold, 0 are of noise alone, 0 fall short" in out
    folder = folders.files() / "plans" / "try"
    head, *verdicts, end = lines_of(folder)
    assert (head["seeds"], head["qemu"], end["kind"]) == (3, "0 (none)", "end")
    assert [each["counts"]["heap"]["remote"] for each in verdicts[:3]] == FEW
    text = (folder / "table.md").read_text()
    assert "| larson | nearmalloc | pass |" in text and "2,010 ±0 %" in text
    assert "QEMU 0 (none)" in text and "| 0.221 | 0.5 |" in text
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    drawn = (folder / "figure.svg").read_text()
    assert "remote accesses" in drawn and "nearmalloc" in drawn and ">larson<" in drawn


def test_a_shortfall_fails_the_plan_and_figure_shows_it_again(fake, plan_file):
    guest_that_counts(fake, {OURS: MANY, "glibc": MANY})
    status, out = command("plan", plan_file)
    assert status == 1 and "near vm: falls short: 4n larson: nearmalloc has 9,100" in out
    (folders.files() / "plans/try/figure.svg").unlink()
    fake("exit 1")
    status, out = command("figure", plan_file)
    assert status == 1 and "1 fall short" in out and "12 passed" in out
    assert (folders.files() / "plans/try/figure.svg").is_file()


def test_a_guest_that_fails_fails_the_plan_and_has_no_numbers(fake, plan_file, tmp_path, undrawn):
    fake("echo no >&2; exit 1")
    status, out = command("plan", plan_file, "--seeds", "1", "--out", str(tmp_path / "o"))
    assert status == 1 and "0 passed, 4 failed" in out and "1 could not be made" in out
    assert "| larson | glibc | fail |  |" in (tmp_path / "o/table.md").read_text()


def test_a_failure_is_enough_where_nothing_is_compared(fake, tmp_path, undrawn):
    path = tmp_path / "try.toml"
    path.write_text(PLAN.partition("[[compare]]")[0])
    guest_that_counts(fake, {OURS: FEW})  # under glibc it ends with an error
    status, out = command("plan", str(path), "--seeds", "1")
    assert status == 1 and "2 passed, 2 failed" in out


def test_a_plan_that_was_ended_is_gone_on_with(fake, plan_file, tmp_path, undrawn):
    folder = tmp_path / "o"
    words = ("plan", plan_file, "--out", str(folder))
    guest_that_counts(fake, {OURS: FEW})  # under glibc it ends with an error
    assert command(*words)[0] == 1
    (kept,) = folder.glob("*.jsonl")
    kept.write_text("".join(kept.read_text().splitlines(keepends=True)[:-4]) + '{"kind": "verd')
    guest_that_counts(fake, {OURS: MANY, "glibc": MANY})
    status, out = command(*words, "--resume")
    assert status == 0 and "12 passed, 0 failed" in out
    assert "larson nearmalloc" not in out.partition("topology")[0]  # it was not run again
    assert lines_of(folder)[-1]["kind"] == "end" and len(list(folder.glob("*.jsonl"))) == 1
    verdicts = plan_results.newest(folder).verdicts
    assert [each["outcome"] for each in verdicts] == ["pass"] * 12
    assert verdicts[2]["counts"]["heap"]["remote"] == FEW[-1]


def test_what_another_library_did_is_not_gone_on_with(fake, plan_file, monkeypatch, undrawn):
    guest_that_counts(fake, {OURS: FEW, "glibc": MANY})
    words = ("plan", plan_file, "--seeds", "1", "--resume")
    command(*words)
    (kept,) = (folders.files() / "plans/try").glob("*.jsonl")
    unfinished = "".join(kept.read_text().splitlines(keepends=True)[:-2])
    for described, again in ((plan_results._described, False), (lambda _: "another", True)):
        kept.write_text(unfinished)
        monkeypatch.setattr(plan_results, "_described", described)
        assert ("larson nearmalloc seed 1: pass" in command(*words)[1]) is again


def test_what_there_is_not_is_refused(fake, plan_file):
    fake("exit 1")
    said = command("plan", "none")[1]
    assert "there is no plan 'none'; there are: design-variants, " in said
    assert "remote-accesses" in said
    status, out = command("figure", plan_file)
    assert status == 2 and "near vm: no results in " in out


def test_list_names_the_plans():
    status, out = command("list")
    assert status == 0 and "remote-accesses-quick" in out


# --- the figure -----------------------------------------------------------------------------------


def test_bars_are_relative_to_the_baseline_or_to_the_floor():
    plan = parse(PLAN, "try")
    verdicts = [*runs_of("nearmalloc", 500), *runs_of("glibc", 4000)]
    verdicts += runs_of("nearmalloc", 500, case="threadtest")
    result = plan_results.Result({"seeds": 1}, verdicts)
    above, nothing = plan_figure.bars(plan, result, "4n", "remote")
    assert above.ratio(above.median.value) == 0.125 and not above.noise
    assert nothing.median is None  # without a baseline
    result.verdicts += runs_of("glibc", 1000, case="threadtest")
    noise = list(plan_figure.bars(plan, result, "4n", "remote"))[1]
    assert noise.ratio(noise.median.value) == 0.5 and noise.noise
