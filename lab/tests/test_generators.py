"""The generators do what their headers say: sizes, lifetimes, sharing, remote frees, curves.

test_workloads.py shows that they do equal work under every allocator and detect a faulty one. Facts
that a result lacks are read from a recording of the workload.
"""

import json
import subprocess

import pytest

from nearlab import places
from nearlab.measure import trace

KIB = 1024


def run(name: str, options: str) -> dict:
    command = [places.workload_dir() / name, *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def recorded(tmp_path, name: str, options: str) -> trace.Summary:
    command = [str(places.workload_dir() / name), *options.split()]
    assert trace.run_recorded(tmp_path / "t", command) == 0
    return trace.read(tmp_path / "t")


# --- ACDC -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("low,high", [(4, 5), (4, 9), (7, 9), (12, 14)])
def test_acdc_sizes_fill_their_range(low, high):
    result = run("acdc", f"--min-exponent {low} --max-exponent {high} --cycles 20 --quantum 400000")
    assert 2**low <= result["smallest"] < 1.25 * 2**low
    assert 0.75 * 2**high < result["largest"] < 2**high


def test_acdc_allocates_a_quantum_of_bytes_in_each_cycle():
    result = run("acdc", "--threads 3 --cycles 10 --quantum 50000")
    quanta = 3 * 10
    assert quanta * 50_000 <= result["bytes"] < quanta * (50_000 + 511)


@pytest.mark.parametrize(
    "lifetimes,count", [("--liveness-low 1 --liveness-high 1", 4), ("--liveness-low 5", 4)]
)
def test_acdc_sets_have_the_objects_of_their_size_and_life(lifetimes, count):
    # S - c + 1 = 2 and L - l + 1 = 1: 4 objects, except in the last set of a quantum.
    options = f"--min-exponent 4 --max-exponent 5 --cycles 10 --quantum 10000 {lifetimes}"
    result = run("acdc", options)
    assert 0 <= count * result["sets"] - result["operations"] < count * 2 * 10


def test_acdc_gives_young_and_small_sets_more_objects():
    def objects_of_a_set(options: str) -> float:
        result = run("acdc", f"--cycles 20 --quantum 400000 {options}")
        return result["operations"] / result["sets"]

    # (9 - 4 + 1)^2 (5 - l + 1)^2 on average over l = 1..5 and the sizes up to 2^9, against one.
    assert objects_of_a_set("") > 2 * objects_of_a_set("--liveness-low 4")
    assert objects_of_a_set("--max-exponent 5 --liveness-low 4") < 20


@pytest.mark.parametrize("threads", [2, 4])
def test_acdc_frees_remotely_what_all_threads_share(threads):
    result = run("acdc", f"--threads {threads} --cycles 100 --quantum 30000")
    share = result["remote_frees"] / result["operations"]
    assert share == pytest.approx(1 - 1 / threads, abs=0.2)


def test_acdc_frees_locally_what_nobody_shares():
    assert run("acdc", "--shared 0 --cycles 10 --threads 4")["remote_frees"] == 0
    half = run("acdc", "--shared 50 --cycles 100 --quantum 30000")
    assert 0.1 < half["remote_frees"] / half["operations"] < 0.4


@pytest.mark.parametrize("percent", [0, 30, 100])
def test_acdc_makes_so_many_sets_lists(percent):
    result = run("acdc", f"--list-percent {percent} --cycles 20")
    assert 100 * result["lists"] / result["sets"] == pytest.approx(percent, abs=5)
    assert result["lists"] == {0: 0, 100: result["sets"]}.get(percent, result["lists"])
    assert result["damaged_sets"] == 0


def test_acdc_reports_the_resident_set_without_its_tables():
    options = "--min-exponent 18 --max-exponent 20 --liveness-high 1 --shared 0 --threads 1"
    result = run("acdc", f"{options} --quantum {64 * KIB * KIB} --cycles 4")
    assert result["rss_samples"] == 4 - 2
    # The program itself takes 4 MiB; freed memory that the allocator keeps is added to that.
    assert 64 * KIB * 0.95 < result["acdc_rss_kib"] < 64 * KIB * 1.25
    tables = run("acdc", "--min-exponent 4 --quantum 4000000 --cycles 12 --shared 0 --threads 1")
    assert tables["acdc_rss_kib"] < 0.7 * tables["vm_hwm_kib"]


def test_acdc_keeps_the_three_times_apart():
    result = run("acdc", "--cycles 40 --threads 1 --shared 0")
    parts = [result[f"{part}_ns"] for part in ("allocation", "access", "deallocation")]
    # No part is timed twice; the time outside is small, except the sampling of memory, left out.
    assert min(parts) > 0 and sum(parts) < result["seconds"] * 1e9
    assert result["allocator_ns_per_thread"] == pytest.approx(parts[0] + parts[2])


@pytest.mark.parametrize(
    "options,message",
    [
        ("--min-exponent 3", "--min-exponent is below 4"),
        ("--min-exponent 9", "--min-exponent is not below --max-exponent"),
        ("--max-exponent 31", "--max-exponent is above 30"),
        ("--liveness-low 6", "--liveness-low is above --liveness-high"),
        ("--list-percent 101", "--list-percent is above 100"),
        ("--shared 101", "--shared is above 100"),
        ("--cycles 0", "--cycles"),
    ],
)
def test_acdc_refuses_what_makes_no_sense(options, message):
    command = [places.workload_dir() / "acdc", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


# --- nalloc's tests ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,lists", [("nalloc_private", "--lists 4"), ("nalloc_global", "--stacks 4")]
)
def test_nalloc_pools_fill_to_their_levels(name, lists):
    # There is a known number of mallocs and frees, plus the frees at the end of what the pools
    # then hold. A list grows below 500 blocks, shrinks above 1000, and varies in between; here it
    # comes from below.
    result = run(name, f"--threads 1 --operations 100000 {lists}")
    held = 2 * result["operations"] - 100_000
    assert 4 * 450 < held < 4 * 900


@pytest.mark.parametrize("name", ["nalloc_private", "nalloc_global", "nalloc_producer"])
def test_nalloc_sizes_are_uniform(tmp_path, name):
    sizes = dict(recorded(tmp_path, name, "--operations 40000 --threads 2").sizes)
    objects = run(name, "--operations 40000 --threads 2")["operations"]
    assert sizes[512] == pytest.approx(objects / 2, rel=0.1)
    assert sizes[256] == pytest.approx(objects / 4, rel=0.1)


def test_nalloc_private_frees_nothing_remotely(tmp_path):
    assert recorded(tmp_path, "nalloc_private", "--operations 40000").remote_frees < 20


def test_nalloc_global_frees_remotely_what_others_put_there(tmp_path):
    summary = recorded(tmp_path, "nalloc_global", "--operations 100000 --threads 4")
    assert summary.remote_frees > 1000


def test_nalloc_producer_frees_everything_remotely(tmp_path):
    options = "--operations 40000 --threads 3 --batch 100"
    summary = recorded(tmp_path, "nalloc_producer", options)
    assert 20_000 <= summary.remote_frees < 20_050
    # For each consumer, four batches are on their way and one more is being filled.
    assert summary.peak_live_objects < 3 * 5 * 100 + 400


@pytest.mark.parametrize("operations", [2, 1999, 2000, 2001, 6006])
def test_nalloc_producer_hands_over_every_block(operations):
    result = run("nalloc_producer", f"--operations {operations} --threads 3 --batch 100")
    assert result["operations"] == operations // 2
    assert result["batches"] % 3 == 0 and 100 * result["batches"] >= operations // 2


# --- after a peak -----------------------------------------------------------------------------


def test_the_blocks_that_are_not_freed_stay_in_use():
    result = run("after_peak", "--threads 4 --megabytes 10 --freed 90 --rest 0 --more 0")
    assert result["live_kib"] == pytest.approx(4 * 1024, rel=0.1)
    assert 40 * 1024 <= result["at_peak_kib"] < 1.3 * 40 * 1024
    for moment in ("after", "long_after"):
        assert result[f"{moment}_peak_kib"] >= result["live_kib"]


def test_low_load_replaces_blocks_for_the_time_that_is_asked_for():
    idle = run("after_peak", "--threads 2 --megabytes 2 --rest 0 --more 0")
    rested = run("after_peak", "--threads 2 --megabytes 2 --rest 200 --more 200")
    assert rested["operations"] - idle["operations"] == 2 * 20 * 200


# --- fragmentation over time ------------------------------------------------------------------


def test_live_bytes_stay_while_sizes_change(tmp_path):
    result = run("fragmentation_over_time", "--live-mib 8 --steps 30 --phase-steps 3")
    curve = result["curve"]
    assert [row[0] for row in curve] == list(range(30))
    for _, live, rss in curve:
        assert 0.95 * 8 * KIB < live <= 8 * KIB
        assert rss > 0.95 * live
    assert result["final_rss_per_live"] == pytest.approx(curve[-1][2] / curve[-1][1])
    ratios = [rss / live for _, live, rss in curve]
    assert result["mean_rss_per_live"] == pytest.approx(sum(ratios) / 30)
    assert result["peak_heap_kib"] == max(rss for _, _, rss in curve)


def test_every_phase_asks_for_sizes_of_its_own(tmp_path):
    def sizes(steps: int) -> dict[int, int]:
        (tmp_path / "t").unlink(missing_ok=True)
        options = f"--live-mib 4 --steps {steps} --phase-steps 1"
        return dict(recorded(tmp_path, "fragmentation_over_time", options).sizes)

    first, all_phases = sizes(1), sizes(5)
    assert first[32] > 1000 and first.get(512, 0) < 100
    assert all_phases[512] > 100 and all_phases[16 * KIB] > 5 and all_phases[64 * KIB] > 2
