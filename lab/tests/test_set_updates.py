"""The workload `set_updates`: every structure under every scheme proves its keys; its results.

Invariant: a structure, scheme or policy of its options that is not run here fails.
"""

import json
import os
import re
import subprocess

import pytest

from nearlab import places
from nearlab.plan import cells, plan
from nearlab.timeline import file as timeline_file
from nearlab.timeline.file import INTERVAL

SMALL = "--keys 400 --operations 6000 --threads 3 --batch 32"
STRUCTURES = ("abtree", "abtree13", "occtree", "occtree_spin", "skip_list", "list", "hash_map")
EPOCHS = ("debra", "debra_free_first", "checkpoints")
PUBLISHED_TOKENS = ("token_naive", "token_pass_first", "token_periodic")
BOUNDED = ("hazard_pointers", "ping")
SCHEMES = ("leaky", *EPOCHS, *PUBLISHED_TOKENS, "token", *BOUNDED, "ibr", "hyaline", "qsbr")
POLICIES = ("batch", "amortized", "adaptive", "budget", "manual")


def ran(
    options: str, program: str = "set_updates", **environment: str
) -> subprocess.CompletedProcess:
    command = [places.workload_dir() / program, *options.split()]
    variables = os.environ | environment
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)


def result(options: str, program: str = "set_updates", **environment: str) -> dict:
    done = ran(options, program, **environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verified"] is True
    return found


def choices(option: str) -> set[str]:
    """The words that --help lists for an option."""
    found = re.search(rf"--{option} TEXT:{{([^}}]*)}}", ran("--help").stdout)
    return set(found[1].split(","))


def test_everything_there_is_to_choose_is_run_here():
    assert choices("structure") == set(STRUCTURES)
    assert choices("scheme") == set(SCHEMES)
    assert choices("policy") == set(POLICIES)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_structure_keeps_its_keys_under_every_scheme(structure, scheme):
    found = result(f"{SMALL} --structure {structure} --scheme {scheme}")
    assert found["operations"] == 6000 and found["retired"] > 1000
    assert 120 < found["keys_after"] < 280
    waiting = found["freed"] + found["lost"]
    assert waiting <= found["retired"] + found["peak_unreclaimed"]
    assert (found["lost"] == found["retired"] and found["freed"] == 0) == (scheme == "leaky")
    assert (found["bound_unreclaimed"] > 0) == (scheme in BOUNDED)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("scheme", ["debra", "token", *BOUNDED, "ibr", "hyaline", "qsbr"])
def test_every_policy_frees(scheme, policy):
    more = "--every 10 --objects 20" if policy == "manual" else ""
    found = result(f"{SMALL} --scheme {scheme} --policy {policy} --operations 240000 {more}")
    assert found["freed"] > 0
    keeps_bound = scheme in (*BOUNDED, "ibr", "hyaline")  # frees more for that
    if policy == "amortized" and not keeps_bound:
        assert found["longest_free_run"] == 1


def test_equal_options_do_equal_work_whatever_reclaims_and_whoever_serves():
    first = result(SMALL)
    other = result(f"{SMALL} --scheme token --structure list --threads 1")
    ours = result(SMALL, LD_PRELOAD=str(places.nearmalloc_library()))
    assert first["checksum"] == other["checksum"] == ours["checksum"]
    assert "libnearmalloc" in ours["malloc_from"]
    assert result(f"{SMALL} --operations 6001")["checksum"] != first["checksum"]


def test_one_thread_makes_every_result_the_same():
    options = "--keys 400 --operations 6000 --threads 1 --structure "
    found = {name: result(options + name) for name in STRUCTURES}
    assert len({one["keys_after"] for one in found.values()}) == 1
    assert found["abtree"]["retired"] > found["occtree"]["retired"]


@pytest.mark.parametrize("prefill,low,high", [("mixed", 1700, 2300), ("inserts", 1800, 2200)])
def test_half_of_the_keys_are_in_before(prefill, low, high):
    found = result(f"--keys 4000 --operations 1 --threads 2 --prefill {prefill}")
    assert low < found["keys_after"] < high


def test_without_prefill_the_set_is_empty():
    assert result("--keys 4000 --operations 1 --threads 1 --prefill none")["keys_after"] <= 1


def test_finds_and_range_queries_are_part_of_the_work():
    found = result(f"{SMALL} --updates 0 --threads 2")
    assert found["retired"] == 0
    found = result(f"{SMALL} --updates 20 --range 30 --range-keys 40")
    # 30 % of 6,000 queries visit about half of 40 keys, fewer at the end of the range.
    assert 1800 * 15 < found["keys_visited"] < 1800 * 22


def test_range_queries_have_a_row_of_each_thread_in_the_timeline(tmp_path):
    path = tmp_path / "ranges.timeline"
    options = f"{SMALL} --updates 90 --range 10 --range-keys 40 --timeline {path}"
    visited = result(options)["keys_visited"]
    found = timeline_file.read(path)
    rows = [row for row in found.rows if row.name == "range queries"]
    queries = [row.events.of(INTERVAL, found.kind("range_query")) for row in rows]
    assert len(queries) == 3 and 500 < sum(len(events) for events in queries) < 700
    assert sum(int(events.count.sum()) for events in queries) == visited and found.dropped == 0
    timed = result(f"{SMALL} --timeline {path}")["seconds"]
    found = timeline_file.read(path)
    assert not any("range" in row.name for row in found.rows)
    assert timed <= found.measured * 1e-9 < timed + 0.5


def test_a_reader_that_sleeps_inside_an_operation_stops_epochs_and_not_hazards():
    options = "--keys 400 --operations 60000 --threads 2 --batch 32 --stall-ms 60000 --scheme "
    for scheme in ("debra", "qsbr"):
        stopped = result(options + scheme)
        assert stopped["freed"] == 0 and stopped["peak_unreclaimed"] > 10000
    bounded = result(options + "hazard_pointers")
    assert bounded["peak_unreclaimed"] <= bounded["bound_unreclaimed"] < 5000
    assert result(options + "ibr")["peak_unreclaimed"] < 5000
    assert result(options + "hyaline")["peak_unreclaimed"] < 5000


def test_a_thread_that_sleeps_between_operations_stops_the_published_token_alone():
    options = "--keys 400 --operations 60000 --threads 2 --sleep-between-ms 60000 --scheme "
    freed = {name: result(options + name)["freed"] for name in ("debra", "token_periodic", "token")}
    assert freed["token_periodic"] == 0 and freed["token"] > 0 and freed["debra"] > 0


def test_latencies_and_the_time_spent_freeing_are_measured_when_asked():
    found = result(f"{SMALL} --latency 3 --freeing-time 1 --operations 30000")
    times = found["operation_ns"]
    assert times["samples"] == 10000
    assert 0 < times["p50"] <= times["p99"] <= times["p99_99"] <= times["max"]
    assert 0 < found["freeing_share"] < 1
    assert not {"operation_ns", "freeing_share"} & result(SMALL).keys()


def test_flushes_are_counted_where_jemalloc_serves(found):
    jemalloc = found["jemalloc"]
    if not jemalloc.available:
        pytest.skip(f"jemalloc is not here: {jemalloc.missing}")
    options = "--keys 20000 --operations 200000 --threads 2 --batch 4096 --policy "
    environment = {"LD_PRELOAD": str(jemalloc.library)}
    batch, amortized = (
        result(options + policy, **environment) for policy in ("batch", "amortized")
    )
    assert batch["flushes_per_1000"] > 0 and batch["locks_per_1000"] > batch["flushes_per_1000"]
    assert amortized["flushes_per_1000"] < batch["flushes_per_1000"]
    assert "flushes_per_1000" not in result(SMALL)


def test_slow_paths_and_batches_are_counted_where_nearmalloc_serves():
    options = "--keys 20000 --operations 200000 --threads 2 --policy "
    environment = {"LD_PRELOAD": str(places.nearmalloc_library())}
    batch, amortized = (
        result(options + policy, **environment) for policy in ("batch", "amortized")
    )
    for found in (batch, amortized):
        assert found["locks_per_1000"] >= found["fills_per_1000"] > 0
        assert found["batch_blocks_per_1000"] == pytest.approx(found["freed"] / 200, rel=0.05)
        assert 0 < found["batch_atomics_per_1000"] < found["batch_groups_per_1000"]
        assert 0 < found["remote_blocks_per_1000"] < found["batch_blocks_per_1000"]
    assert amortized["batches_per_1000"] == amortized["batch_groups_per_1000"]
    assert batch["batches_per_1000"] < batch["batch_groups_per_1000"]
    assert batch["batch_groups_per_1000"] < batch["batch_blocks_per_1000"]


def test_the_pool_serves_what_is_allocated_in_the_measured_region():
    found = result(f"{SMALL} --scheme leaky --pool 16", "set_updates_pool")
    assert found["pool_used_mib"] >= 1
    done = ran("--keys 400 --operations 60000 --scheme leaky --pool 1", "set_updates_pool")
    assert done.returncode == 1 and done.stderr == "set_updates_pool: --pool is too small\n"


def test_options_that_make_no_sense_are_refused():
    for options, message in (
        ("--updates 60 --range 50", "--updates and --range: above 100"),
        ("--keys 4294967296", "--keys is above 2^32 - 1"),
        ("--scheme rcu", "--scheme"),
        ("--pool 3", "--pool"),
    ):
        done = ran(options)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["paper-kim-ch3", "reclamation", "reclamation-matrix"])
def test_the_plans_cells_run(name):
    """Runs each cell with little work; in the matrix only cells of the fewest threads."""
    for cell in cells.of_plan(plan.load(plan.find(name))):
        if name == "reclamation-matrix" and cell.threads != 2:
            continue
        little = "--operations 500 --keys 200" + (" --pool 16" if "pool" in cell.program else "")
        found = result(" ".join([*cell.argv[1:], little]), cell.program)
        assert found["operations"] == 500, cell.name
