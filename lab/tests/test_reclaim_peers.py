"""The peers of the reclamation library do the work they are measured by, all of them the same work;
a peer that this machine cannot run is missing with its reason.
"""

import ctypes
import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

import fake_workloads
from nearlab import places
from nearlab.peers import crates
from nearlab.plan import cells, plan, workloads
from nearlab.runs import command as run

HERE = Path(__file__).resolve().parent
XENIUM_SCHEMES = ("debra", "debra_region", "new_epoch_based", "hazard_pointer")
FORMS = [
    *(
        ("xenium_set", f"--scheme {scheme} --structure {structure}")
        for scheme in XENIUM_SCHEMES
        for structure in ("list", "hash_map")
    ),
    *(
        ("cds_set", f"--scheme {scheme} --structure {structure}")
        for scheme in ("hazard_pointer", "buffered_rcu")
        for structure in ("list", "hash_map", "skip_list", "ellen_tree")
    ),
    ("cds_set", "--scheme buffered_rcu --structure avl_tree"),
    *(
        (name, f"--structure {structure}")
        for name in ("crossbeam_set", "urcu_set")
        for structure in ("list", "hash_map")
    ),
]
PROGRAMS = tuple(dict.fromkeys(name for name, _ in FORMS))
# Four threads on few keys; most nodes are retired several times over.
SMALL = "--threads 4 --keys 64 --operations 40000"


@pytest.fixture(scope="module", autouse=True)
def built():
    """Builds the crate if there is a cargo; a test installs no tool."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crates, "get_tools", lambda: None)
        workloads.provide(["crossbeam_set"])


def run_one(name: str, options: str, preload: Path | None = None) -> tuple[int, dict, str]:
    """Returns the exit status, the result, the errors."""
    if reason := workloads.missing(name):
        pytest.skip(reason)
    variables = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if preload:
        variables["LD_PRELOAD"] = str(preload)
    command = [workloads.path(name), *options.split()]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    result = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return done.returncode, result, done.stderr


@pytest.mark.parametrize("name,options", FORMS)
def test_keys_add_up_under_glibc_and_nearmalloc(name, options):
    for library in (None, places.nearmalloc_library()):
        status, result, errors = run_one(name, f"{options} {SMALL}", library)
        assert status == 0 and result["verified"] is True, errors
        assert ("libnearmalloc" if library else "libc.so") in result["malloc_from"]
        assert result["name"] == name and result["operations"] == 40000
        assert result["inserted"] > 1000 and result["erased"] > 1000 and result["ops_per_s"] > 0
        assert result["size"] == result["prefilled"] + result["inserted"] - result["erased"]
        assert 16 <= result["prefilled"] <= 48


@pytest.mark.parametrize("options", [SMALL, "--threads 3 --operations 10001 --updates 20"])
def test_all_do_the_same_operations(options):
    found = {run_one(name, options)[1]["checksum"] for name in PROGRAMS}
    assert len(found) == 1
    assert found != {run_one("xenium_set", options + " --operations 999")[1]["checksum"]}


def test_they_are_the_operations_of_our_own_sets():
    ours = run_one("set_updates", f"--structure list --scheme token {SMALL}")[1]
    theirs = run_one("xenium_set", SMALL)[1]
    assert ours["verified"] is True and ours["checksum"] == theirs["checksum"]
    assert ours["operations"] == theirs["operations"]


def test_one_thread_alone_changes_the_same_keys():
    options = "--threads 1 --keys 100 --operations 5000"
    results = [run_one(name, f"{form} {options}")[1] for name, form in FORMS]
    assert len({(one["inserted"], one["erased"], one["size"]) for one in results}) == 1


def test_finds_alone_change_nothing():
    for name, form in FORMS:
        result = run_one(name, f"{form} --operations 1000 --updates 0")[1]
        assert result["inserted"] == result["erased"] == 0
        assert 400 <= result["prefilled"] == result["size"] <= 600


def test_a_set_that_loses_a_key_is_noticed(tmp_path):
    program = tmp_path / "lying_set"
    library = places.workload_dir() / "libnear_workload.a"
    folders = [f"-I{HERE.parent / folder}" for folder in ("reclaim", "workloads", "bench")]
    sources = [HERE / "lying_set.cc", library]
    command = ["g++", "-std=c++20", *folders, *sources, "-o", program, "-pthread", "-ldl"]
    subprocess.run(command, check=True)
    for operations, status in ((10, 0), (10000, 3)):
        options = ["--threads", "1", "--operations", str(operations)]
        done = subprocess.run([program, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == status
        assert json.loads(done.stdout)["verified"] is (status == 0)


def test_crossbeam_pins_without_a_structure():
    result = run_one("crossbeam_set", "--structure none --operations 10000 --threads 2")[1]
    assert result["verified"] is True and result["operations"] == 10000


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "options",
    [
        "--nonsense 1",
        "--preset nobody",
        "--threads 0",
        "--threads -1",
        "--structure tree",
        "--updates 101",
        "--keys 4294967296",
        "--operations 1 --threads 2",
    ],
)
def test_a_wrong_option_is_named(name, options):
    status, result, errors = run_one(name, options)
    assert status == 2 and not result
    assert errors.startswith(f"{name}: ") and errors.count("\n") == 1
    assert options.split()[0] in errors


def test_libcds_has_no_avl_tree_under_hazard_pointers():
    status, result, errors = run_one("cds_set", "--structure avl_tree --scheme hazard_pointer")
    assert status == 2 and not result
    assert errors == "cds_set: --structure avl_tree has only buffered_rcu\n"


def test_the_help_of_a_program_in_rust_is_the_file_that_the_lab_reads():
    if reason := workloads.missing("crossbeam_set"):
        pytest.skip(reason)
    asked = subprocess.run([workloads.path("crossbeam_set"), "--help"], capture_output=True)
    crate = places.rust_workloads_dir() / "crossbeam_set"
    assert asked.stdout == (crate / "src" / "help.txt").read_bytes()
    assert {"preset", "structure", "buckets"} <= workloads.options("crossbeam_set")
    assert "crossbeam" in workloads.description("crossbeam_set")


def test_the_preset_scales_the_operations_unless_they_are_given():
    small = "--structure none --preset two-cores"
    assert run_one("crossbeam_set", small)[1]["operations"] == 1_000_000
    assert run_one("crossbeam_set", f"--operations 7 {small}")[1]["operations"] == 7


PLAN = fake_workloads.plan_text(
    '[[workload]]\nprogram = "xenium_set"\noptions = { scheme = "debra" }\n'
    '[[workload]]\nprogram = "cds_set"\noptions = { structure = "list" }\n'
    '[[workload]]\nprogram = "urcu_set"\noptions = { structure = "list" }\n'
    '[[workload]]\nprogram = "crossbeam_set"\noptions = { structure = "list" }\n'
    '[[workload]]\nprogram = "steady"'
)


def test_a_peer_that_cannot_be_had_is_missing_and_the_rest_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("NEAR_LAB_BUILD", str(fake_workloads.build(tmp_path / "lab")))
    monkeypatch.setattr(places, "peers_build", lambda: tmp_path / "build")
    monkeypatch.setattr(places, "logs_dir", lambda: tmp_path / "logs")
    monkeypatch.setattr(crates, "find_cargo", lambda: None)
    found = plan.parse(PLAN, "try.toml")
    with run.prepared(found, run.Choice()) as driver:
        missing = {cell.program: cell.missing for cell in driver.cells}
        assert driver.left() == 3 * 2  # of `steady`, under two allocators
    assert missing == {
        "xenium_set": "not built: apt-get install libxenium-dev",
        "cds_set": "not built: apt-get install libcds-dev",
        "urcu_set": "not built: apt-get install liburcu-dev",
        "crossbeam_set": "cargo is missing",
        "steady": None,
    }
    assert [cell.program for cell in cells.of_plan(found)] == [*missing]


def has_membarrier() -> bool:
    """True if pins need no fence here: membarrier(2) has its private expedited command."""
    if platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(324, 0, 0, 0) & 8 != 0


def test_a_pin_without_a_fence_costs_less_than_one_with_it():
    if not has_membarrier():
        pytest.skip("no membarrier(2)")
    result = run_one("pin", "--rounds 200 --operations 40000")[1]
    assert result["verified"] is True
    # The shortest of many short rounds is used, because other programs use the processor too. In
    # the result, `goals` are the times that the library should reach.
    best = result["best"]
    saved = {name: best[f"{name}_fenced"] - best[name] for name in ("debra", "hazard_pointers")}
    saved["token"] = best["token_alone_fenced"] - best["token"]
    # A fence takes 2 ns on some processors (AMD EPYC), most of it hidden by a pin, 7 on others.
    fence = best["handshake_fenced"] - best["handshake"]
    for name, nanoseconds in saved.items():
        assert nanoseconds > 0.07 * fence, (name, best)
        if fence > 4:
            assert best[name] < 0.7 * (best[name] + nanoseconds), (name, best)
    assert set(result["goals"]) == {"debra_of_fenced", "token_over_load_ns"}
    assert result["load_over_load_ns"] == 0 and result["debra_fenced_of_fenced"] == 1


def test_pins_of_xenium_are_timed_where_it_is():
    timed = {key for key in run_one("pin", "--rounds 1 --operations 10")[1] if key.endswith("_ns")}
    theirs = {f"xenium_{scheme}_ns" for scheme in XENIUM_SCHEMES}
    assert theirs <= timed if workloads.missing("xenium_set") is None else not theirs & timed
