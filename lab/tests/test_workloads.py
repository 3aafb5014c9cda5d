"""Every workload does equal work under every allocator, and detects a faulty one.

Invariant: a workload without small options here fails; so does a file that no target builds.
"""

import functools
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from nearlab import places
from nearlab.measure import trace

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "workloads"
# Little work, for each workload in one or more forms. A fault needs blocks that live side by side
# in the broken allocator: threads that hold one block each must be preempted while they do.
SMALL = {
    "acdc": [
        "--cycles 8 --quantum 20000",
        "--cycles 8 --quantum 20000 --list-percent 0 --threads 3",
        "--cycles 4 --quantum 200000 --min-exponent 10 --max-exponent 12 --shared 0",
    ],
    "after_peak": [
        "--threads 2 --megabytes 2 --rest 20 --more 40",
        "--threads 3 --megabytes 1 --rest 1 --more 0 --freed 100 --mark",
    ],
    "cache_scratch": ["--threads 8 --rounds 20 --writes 800"],
    "cache_thrash": ["--threads 4 --rounds 300 --writes 40000"],
    "churn": [
        "--blocks 500 --operations 5000",
        "--blocks 500 --operations 5000 --migrate 300 --mark",
        "--blocks 500 --operations 3000 --warm-up 2000",
    ],
    "exchange": [
        "--operations 4000 --blocks 500 --share 0.3 --batch 7",
        "--operations 4000 --blocks 500 --pattern pools --share 0.5 --batch 9 --threads 3",
        "--operations 4000 --blocks 500 --pattern pipeline --share 0.3 --threads 4 --mark",
        "--operations 4000 --blocks 500 --pattern owner --batch 50 --threads 3",
    ],
    "fragmentation": [
        "--megabytes 1 --sleep 1 --pattern stretches",
        "--megabytes 1 --sleep 1 --pattern random",
    ],
    "fragmentation_over_time": ["--live-mib 1 --steps 12 --phase-steps 2"],
    "idle_threads": [
        "--threads 4 --sleep 1 --largest 2048",
        "--threads 4 --sleep 1 --largest 2048 --working 2 --operations 2000",
    ],
    "large_churn": ["--operations 30 --high 4"],
    "larson": [
        "--operations 2000 --generations 6 --blocks 100 --low 7 --high 300",
        "--operations 2000 --generations 6 --blocks 100 --low 7 --high 300 --mark --pin spread",
        "--operations 2000 --generations 6 --blocks 100 --low 7 --high 300 --sets threads",
    ],
    "linux_scalability": ["--objects 2000 --rounds 2", "--objects 2000 --held 10 --size 8"],
    "malloc_test": [
        "--threads 2 --batches 20 --objects 200",
        "--threads 3 --batches 90 --objects 50 --under-way 1",
    ],
    "migration": ["--operations 5000 --blocks 300", "--operations 5000 --migrate 999 --mark"],
    "nalloc_global": ["--operations 20000", "--operations 5000 --threads 5 --stacks 2"],
    "nalloc_private": ["--operations 20000"],
    "nalloc_producer": ["--operations 20000 --batch 100", "--operations 999 --threads 1"],
    "phong": ["--allocations 5000 --places 200", "--allocations 5000 --places 200 --resized 40"],
    "producer_consumer": [
        "--blocks 5000 --capacity 64",
        "--blocks 5000 --capacity 64 --pairs 2 --mark --pin compact",
    ],
    "realloc_growth": ["--rounds 1 --limit 1"],
    "replay": ["--file TRACE"],
    "server_pool": [
        "--requests 400 --connections 20 --cached 50",
        "--requests 400 --connections 3 --cached 1 --keep 1 --threads 3 --mark --pin spread",
    ],
    "set_updates": ["--operations 3000 --keys 300 --threads 2"],
    "set_updates_pool": ["--operations 3000 --keys 300 --threads 2 --scheme leaky --pool 8"],
    "shared_table": [
        "--slots 100 --operations 5000",
        "--slots 100 --operations 5000 --batch 512 --threads 3",
    ],
    "shbench_like": [
        "--operations 5000 --kind six --high 8",
        "--operations 5000 --kind eight --high 100",
        "--operations 5000 --kind lifetimes --wheel 300 --high 1000",
    ],
    "start_up": ["--times 6"],
    "sweep": [
        "--work 1 --live 100KB --size 100",
        "--work 1 --live 1MiB --sizes 9 --size 9000 --order fifo --batch 20 --bands 3 --free 50",
        "--work 1 --live 1MiB --size 30000 --grow 1.5 --order lifo --batch 9 --huge-pages off",
        "--work 1 --live 1MiB --threads 3 --remote 0.5 --batch 7 --idle 3 --settle 1 --mark",
        "--work 1 --live 200KB --threads 2 --remote 1 --order phases",
        "--work 1 --live 1MiB --sizes-from SIZES --order fifo",
    ],
    "thread_churn": ["--generations 20", "--generations 200 --mark"],
    "threadtest": ["--objects 2000 --rounds 3 --size 8", "--objects 999 --rounds 2 --work 3"],
    "xmalloc_like": ["--rounds 30", "--rounds 30 --threads 1", "--rounds 99 --under-way 1"],
}
# The blocks of these are nodes without stamps: a faulty one ends in a crash or in a lost key
# (test_set_updates.py).
UNSTAMPED = {"set_updates", "set_updates_pool"}
FORMS = [(name, options) for name, forms in SMALL.items() for options in forms]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a workload ended: its exit status, its result line if it got that far, its errors."""

    status: int
    result: dict
    errors: str


@functools.cache
def recorded() -> Path:
    """A trace for the workload that replays one."""
    file = Path(tempfile.mkdtemp()) / "trace"
    program = [str(places.workload_dir() / "acdc"), "--cycles", "5", "--quantum", "20000"]
    assert trace.run_recorded(file, program) == 0
    return file


@functools.cache
def distribution() -> Path:
    """Sizes with weights for the workload that reads them."""
    file = Path(tempfile.mkdtemp()) / "sizes"
    file.write_text("# bytes, weight\n32 6\n1000 3\n20000 1\n")
    return file


def run(name: str, options: str, preload: Path | None = None, **environment: str) -> Ran:
    """Runs a workload under a library, with more environment variables."""
    variables = {**os.environ, **environment}
    variables.pop("LD_PRELOAD", None)
    if preload:
        variables["LD_PRELOAD"] = str(preload)
    options = options.replace("TRACE", str(recorded())) if name == "replay" else options
    options = options.replace("SIZES", str(distribution())) if name == "sweep" else options
    command = [places.workload_dir() / name, *options.split()]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    result = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return Ran(done.returncode, result, done.stderr)


def limit() -> Path:
    return places.bench_dir() / "liblimit.so"


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Path:
    """The allocator with deliberate faults."""
    library = tmp_path_factory.mktemp("broken") / "libbroken.so"
    source = HERE / "broken_malloc.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_every_workload_is_built_and_has_small_options():
    programs = {file.stem for file in FOLDER.glob("*.cc") if "int main(" in file.read_text()}
    assert programs == set(SMALL)
    assert programs <= {path.name for path in places.workload_dir().iterdir()}


@pytest.mark.parametrize("name,options", FORMS)
def test_equal_work_is_proved_under_glibc_and_nearmalloc(name, options):
    plain = run(name, options)
    ours = run(name, options, places.nearmalloc_library())
    for ran, library in ((plain, "libc.so"), (ours, "libnearmalloc")):
        assert ran.status == 0 and ran.result["verified"] is True, ran.errors
        assert library in ran.result["malloc_from"]
        assert ran.result["name"] == name and ran.result["operations"] > 0
    assert ours.result["checksum"] == plain.result["checksum"]
    assert ours.result["operations"] == plain.result["operations"]


@pytest.mark.parametrize("fault", ["twice", "short"])
@pytest.mark.parametrize("name,options", [form for form in FORMS if form[0] not in UNSTAMPED])
def test_blocks_that_overlap_are_noticed(broken, name, options, fault):
    ran = run(name, options, broken, BROKEN=fault)
    assert ran.status == 3 and ran.result["verified"] is False
    assert ran.errors.count("\n") == 1 and "overlap" in ran.errors


@pytest.mark.parametrize("name,options", FORMS)
def test_the_broken_allocator_is_sound_where_it_is_told_to_be(broken, name, options):
    ran = run(name, options, broken, BROKEN="twice", BROKEN_EVERY="1000000000")
    assert ran.status == 0 and ran.result["verified"] is True, ran.errors


def test_other_sizes_give_another_checksum():
    checksums = {run("churn", f"--operations 100 --high {n}").result["checksum"] for n in (99, 100)}
    assert len(checksums) == 2


def test_another_seed_gives_other_work_and_the_same_seed_equal_work():
    options = "--operations 100 --high 99"
    seeds = ["", "--seed 0", "--seed 1", "--seed 1", "--seed 2"]
    checksums = [run("churn", f"{options} {seed}").result["checksum"] for seed in seeds]
    assert checksums[0] == checksums[1] and checksums[2] == checksums[3]
    assert len(set(checksums)) == 3


def test_threads_that_migrate_move_among_the_cpus_that_they_may_use():
    options = "--threads 3 --blocks 100 --operations 6000 --migrate 1000"
    all_cpus = os.sched_getaffinity(0)
    moves = run("churn", options).result["moves"]
    assert moves >= 3 * 4 if len(all_cpus) > 1 else moves == 0
    try:
        os.sched_setaffinity(0, {min(all_cpus)})
        assert run("churn", options).result["moves"] == 0
    finally:
        os.sched_setaffinity(0, all_cpus)
    assert "moves" not in run("churn", options.partition(" --migrate")[0]).result


def test_a_preset_scales_what_is_not_given():
    def operations(options: str) -> int:
        return run("linux_scalability", "--threads 1 --objects 10 " + options).result["operations"]

    paper, scaled = operations(""), operations("--preset two-cores")
    assert paper == 10 and scaled > paper
    assert operations("--preset paper") == paper
    assert operations("--preset two-cores --rounds 3") == 30
    assert operations("--rounds 3 --preset two-cores") == 30


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("options", ["--nonsense", "--preset nobody", "surplus"])
def test_a_wrong_option_is_named(name, options):
    ran = run(name, options)
    assert ran.status == 2 and not ran.result
    assert ran.errors.startswith(f"{name}: ") and ran.errors.count("\n") == 1
    assert options.split()[-1] in ran.errors


@pytest.mark.parametrize(
    "name,options,message",
    [
        ("after_peak", "--freed 101", "--freed is above 100"),
        ("threadtest", "--threads 0", "--threads: must be at least 1"),
        ("threadtest", "--threads some", "--threads"),
        ("threadtest", "--threads -1", "--threads"),
        ("threadtest", "--threads 4 --objects 3", "--objects is below --threads"),
        ("churn", "--low 9 --high 8", "--low is above --high"),
        ("phong", "--resized 100", "--resized"),
        ("fragmentation", "--pattern neat", "--pattern"),
        ("thread_churn", "--left 201", "--left is above --blocks"),
        ("churn", "--migrate 9 --pin spread", "--migrate goes without --pin"),
        ("churn", "--migrate 9 --stamps off", "--migrate needs stamps"),
        ("sweep", "--live 5x", "--live"),
        ("sweep", "--live 0KiB", "--live: must be at least 1"),
        ("sweep", "--size 8 --sizes 2", "--smallest is above --size"),
        ("sweep", "--remote 0.5", "--remote needs --threads of at least 2"),
        ("sweep", "--remote 2 --threads 2", "--remote is not between 0 and 1"),
        ("sweep", "--grow 1", "--grow is neither 0 nor above 1"),
        ("sweep", "--bands 2", "--bands is above --sizes"),
        ("sweep", "--sizes-from /none", "--sizes-from: cannot read /none"),
        ("sweep", "--sizes-from /dev/null", "/dev/null: no sizes"),
        ("larson", "--generations 1", "--generations is below --threads"),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options, message):
    ran = run(name, options)
    assert ran.status == 2 and message in ran.errors and ran.errors.count("\n") == 1


@pytest.mark.parametrize("name", SMALL)
def test_every_workload_explains_its_options(name):
    command = [places.workload_dir() / name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "--preset" in done.stdout


@pytest.mark.parametrize("name,options", FORMS)
def test_small_work_fits_under_the_limit(name, options):
    ran = run(name, options, limit(), LIMIT_MIB="32")
    assert ran.status == 0 and ran.result["verified"] is True, ran.errors
    assert ran.result["malloc_from"].endswith("liblimit.so")


def test_work_that_does_not_fit_under_the_limit_is_noticed():
    assert run("threadtest", "--objects 50000 --rounds 1", limit(), LIMIT_MIB="1").status == 3
    assert run("threadtest", "--objects 5000 --rounds 9", limit(), LIMIT_MIB="1").status == 0


def test_the_limit_keeps_what_its_calls_promise(tmp_path):
    program = tmp_path / "limit_calls"
    source = HERE / "limit_calls.c"
    subprocess.run(["cc", "-O1", "-fno-builtin", "-o", program, source], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(limit()), "LIMIT_MIB": "1"}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_latencies_are_reported_in_order():
    result = run("threadtest", "--objects 2000 --rounds 50").result
    for call in ("malloc_ns", "free_ns"):
        found = result[call]
        shares = [found[part] for part in ("p50", "p90", "p99", "p99_9")]
        assert shares == sorted(shares) and found["max"] >= shares[0]
        assert found["p50"] < 100_000
    calls_of_a_thread = 2 * 50 * 1000
    samples = result["malloc_ns"]["samples"] + result["free_ns"]["samples"]
    assert samples == 2 * (calls_of_a_thread // 61)
