"""The harness's share of a workload's instructions, and what a large one means."""

import shutil
import subprocess
from dataclasses import replace

import pytest

import results_file as make
from nearlab import peers, places
from nearlab.measure import harness
from nearlab.peers import Allocator
from nearlab.plan.cells import Cell
from nearlab.report import tables
from nearlab.report.analysis import MEMORY, TIME
from nearlab.results import record
from nearlab.runs import extras
from nearlab.runs.work import Bench
from reporting import analyse, content

with_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")

COUNTS = """\
ob=(1) /bin/workload
fn=(1) main
7 100
cob=(2) /lib/libmine.so
cfn=(2) malloc
calls=3 9
8 60
cob=(3) /lib/libc.so.6
cfn=(3) memset
calls=1 9
9 20
cfn=(4) release
calls=3 4
9 50
cob=(2)
cfn=(7) pthread_create
calls=1 8
9 200

fn=(4)
4 10
cob=(2)
cfn=(5) free
calls=3 8
5 40

ob=(2)
fn=(2)
9 50
cfn=(6) refill
calls=1 7
9 10

totals: 250
"""


def test_the_inclusive_cost_of_calls_into_the_allocator_is_its_part():
    found = harness.of_counts(COUNTS.splitlines(), "/lib/libmine.so")
    assert found.value == pytest.approx(1 - 100 / 250)
    assert "did not enter" in harness.of_counts(COUNTS.splitlines(), "/lib/other.so").failure


def test_glibcs_part_is_that_of_its_malloc_family():
    text = COUNTS.replace("/lib/libmine.so", "/lib/libc.so.6")
    assert harness.of_counts(text.splitlines(), None).value == pytest.approx(1 - 100 / 250)


@with_valgrind
def test_without_stamps_less_is_harness():
    program = places.workload_dir() / "threadtest"
    options = ["--threads", "1", "--objects", "500", "--rounds", "500"]
    library = places.nearmalloc_library()
    with_stamps, without = (
        harness.share([program, *options, "--stamps", word], library) for word in ("on", "off")
    )
    assert with_stamps.failure is None and without.failure is None
    assert 0.5 < with_stamps.value < 0.8, "threadtest is mostly harness"
    assert without.value < with_stamps.value - 0.08


@with_valgrind
def test_a_program_without_a_region_has_no_share():
    assert "no counts" in harness.share(["true"]).failure
    failed = harness.share([places.workload_dir() / "threadtest", "--objects", "0"])
    assert failed.value is None and "exit code 2" in failed.failure


def test_a_row_that_is_mostly_harness_ranks_nobody_in_time(tmp_path):
    shares = {"glibc": 0.6, "nearmalloc": None, "tbb": None}
    counts = [
        {"kind": "count", "cell": "phong", "allocator": name, "harness_share": share}
        for name, share in shares.items()
    ]
    analysis = analyse(tmp_path, [*content(), *counts])
    assert analysis.record.harness_share("phong") == 0.6
    assert analysis.common(TIME) == ["churn", "larson"]
    assert analysis.common(MEMORY) == ["churn", "larson", "phong"]
    (row,) = tables.unranked(analysis.record).rows
    assert row[0] == "phong" and "60% of its instructions are the harness's" in row[1]
    assert tables.harness(analysis.record).rows == (("phong", "60%"),)


def test_a_share_that_could_not_be_counted_has_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    share = harness.share(["/bin/true"])
    assert (share.value, share.failure) == (None, "valgrind is not installed")
    missing = {"harness_share": None, "harness_failure": share.failure}
    line = {"kind": "count", "cell": "phong", "allocator": "glibc"} | missing
    analysis = analyse(tmp_path, [*content(), line])
    found = tables.harness(analysis.record).rows
    assert found == (("phong", "not known: valgrind is not installed"),)


def allocators(*names: str) -> list[Allocator]:
    return [Allocator(name, name, None, "1") for name in names]


def test_the_share_is_counted_once_a_workload_under_glibc_or_the_first():
    cell = Cell(**(dict.fromkeys(Cell.__slots__) | {"foreign": ("foreign",)}))
    asked = extras.harness_reference
    assert asked(cell, allocators("limit", "tbb", "glibc", "mine")) == "glibc"
    assert asked(cell, allocators("limit", "foreign", "tbb", "mine")) == "tbb"
    assert asked(replace(cell, real_program="redis"), allocators("glibc")) is None
    assert asked(cell, []) is None


@with_valgrind
def test_only_the_counting_run_of_the_reference_has_a_share():
    program = places.workload_dir() / "threadtest"
    argv = (str(program), "--threads", "1", "--objects", "500", "--rounds", "50")
    nothing = dict.fromkeys(Cell.__slots__) | {"name": "threadtest", "argv": argv}
    cell = Cell(**nothing | {"timeout_s": 60.0})
    (glibc,) = peers.ensure(["glibc"])
    with_it, without = (extras.count(Bench(), cell, glibc, each) for each in (True, False))
    assert with_it["failure"] is without["failure"] is None
    assert 0.1 < with_it["harness_share"] < 0.8 and without["harness_share"] is None


def test_a_result_without_shares_ranks_as_before(tmp_path):
    path = make.write(tmp_path / "quick" / "a.jsonl", content())
    assert record.read(path).harness_share("phong") is None


@pytest.mark.parametrize("name", ["threadtest", "realloc_growth", "larson"])
def test_work_without_stamps_is_equal_work(name):
    options = {
        "threadtest": "--objects 2000 --rounds 3",
        "realloc_growth": "--rounds 1 --limit 1",
        "larson": "--operations 2000 --generations 6 --blocks 100",
    }
    command = [places.workload_dir() / name, *options[name].split(), "--stamps"]
    on, off, again = (
        subprocess.run([*command, word], capture_output=True, text=True, check=True).stdout
        for word in ("on", "off", "off")
    )

    def key(line: str, word: str) -> str:
        return line.partition(f'"{word}":')[2].partition(",")[0]

    assert key(on, "operations") == key(off, "operations") != ""
    assert key(off, "checksum") == key(again, "checksum") != key(on, "checksum")
    assert '"free_ns"' in on and '"free_ns"' not in off
