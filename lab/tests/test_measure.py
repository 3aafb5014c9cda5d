"""Memory, time, exit statuses and processes are measured correctly."""

import json
import subprocess
import time
from pathlib import Path

import pytest

import processes
from nearlab import places
from nearlab.measure import measure

MIB = 1024


def touch(mebibytes: int) -> list:
    """A program that allocates, touches and frees this much."""
    arguments = ["--held", "1", "--operations", "1", "--low", mebibytes, "--high", mebibytes]
    return [places.workload_dir() / "large_churn", *arguments]


def test_peak_rss_is_the_known_footprint_within_two_percent():
    more = measure.run_child(touch(256)).peak_rss_kib - measure.run_child(touch(1)).peak_rss_kib
    assert more == pytest.approx(255 * MIB, rel=0.02)


def test_page_tables_of_the_known_footprint_are_seen():
    # Page tables have 8 bytes for each page of 4 KiB.
    more = held("524288:1500")[0].peak_pte_kib - held("1024:1")[0].peak_pte_kib
    assert more == pytest.approx(511 * MIB / 4096 * 8, rel=0.05)


def test_a_large_parent_does_not_make_the_child_look_large():
    ballast = bytearray(200 * MIB * MIB)
    ballast[::4096] = b"x" * len(range(0, len(ballast), 4096))
    assert measure.run_child([places.bench_dir() / "idle"]).peak_rss_kib < 8 * MIB


def test_what_a_program_says_of_itself_agrees_with_what_is_measured():
    sample = measure.run_child(touch(64))
    assert json.loads(sample.stdout)["vm_hwm_kib"] == pytest.approx(sample.peak_rss_kib, rel=0.02)


def test_mean_rss_lies_below_the_peak():
    sample = measure.run_child(touch(256))
    assert 0 < sample.mean_rss_kib <= sample.peak_rss_kib


def held(*steps: str) -> tuple[measure.Sample, dict]:
    """A run of `footprint`, and the memory that it reports to have held."""
    sample = measure.run_child([places.bench_dir() / "footprint", *steps])
    return sample, json.loads(sample.stdout)


def test_mean_and_peak_of_known_amounts_over_known_times_are_right_within_two_percent():
    # First small, where samples are close together; then large, then in between: a mean over
    # samples instead of time would be far too small.
    small, _ = held("0:100")
    for _ in range(10):  # on a loaded machine a sample may be late
        sample, known = held("8192:200", "98304:1100", "32768:700")
        mean = known["kib_seconds"] / sample.wall_s
        if sample.mean_rss_kib - small.mean_rss_kib == pytest.approx(mean, rel=0.02):
            break
        time.sleep(1)
    assert sample.mean_rss_kib - small.mean_rss_kib == pytest.approx(mean, rel=0.02)
    assert sample.peak_rss_kib - small.peak_rss_kib == pytest.approx(known["peak_kib"], rel=0.02)


def test_the_sampler_takes_little_of_the_cpu():
    sample, _ = held("8192:1000")
    assert 0 < sample.sampler_cpu_s < 0.1 * sample.wall_s and 5 < sample.samples < 250


@pytest.fixture(scope="module")
def memory_calls(tmp_path_factory) -> Path:
    program = tmp_path_factory.mktemp("calls") / "memory_calls"
    source = Path(__file__).with_name("memory_calls.c")
    subprocess.run(["cc", "-O1", source, "-o", program, "-pthread"], check=True)
    return program


def counted(*argv) -> dict[str, int]:
    sample = measure.run_child(argv, count_calls=True)
    if sample.syscalls_refused:
        pytest.skip(f"counting is refused: {sample.syscalls_refused}")
    assert sample.ok
    return sample.syscalls


def test_memory_calls_of_threads_and_children_are_counted_exactly(memory_calls):
    turns = 500
    few, many = counted(memory_calls, 0), counted(memory_calls, turns)
    each = {"mmap": 2, "munmap": 2, "madvise": 3, "mremap": 1, "mprotect": 2, "brk": 0}
    for name, calls in each.items():  # in the process, its thread and its child
        assert many[name] - few[name] == 3 * turns * calls, name


def test_calls_are_counted_only_when_asked_for():
    assert measure.run_child(["true"]).syscalls is None
    with measure.children(count_calls=True):
        sample = measure.run_child(["true"])
    assert sample.syscalls_refused or sample.syscalls["mmap"] > 0
    assert "syscalls" not in measure.run_child(["true"]).to_json()


def test_a_kernel_that_refuses_to_count_is_told():
    # The kernel refuses a listener inside another listener's reach; the program runs all the same.
    inner = [places.bench_dir() / "launch", "--report", 1, "--count-calls", "--", "true"]
    counted("true")
    sample = measure.run_child(inner, count_calls=True)
    assert sample.ok and "calls refused" in sample.stdout
    _, _, reason = sample.stdout.partition("calls refused ")
    assert measure.run_child(["true"], count_calls=True).syscalls_refused is None and reason


def test_wall_time_is_that_of_the_program():
    assert 0.3 <= measure.run_child(["sleep", "0.3"]).wall_s < 5


def test_cpu_time_and_switches_are_counted():
    sample = measure.run_child(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
    assert sample.cpu_s > 0.02 and sample.minor_faults > 10 and sample.context_switches > 0


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_codes_are_reported(code):
    sample = measure.run_child(["sh", "-c", f"exit {code}"])
    assert (sample.exit_code, sample.signal, sample.ok) == (code, 0, code == 0)


@pytest.mark.parametrize("name,number", [("SEGV", 11), ("ABRT", 6), ("KILL", 9)])
def test_a_crash_is_a_result(name, number):
    sample = measure.run_child(["sh", "-c", f"kill -{name} $$"])
    assert (sample.exit_code, sample.signal) == (-1, number)
    assert sample.failure() == f"ended by SIG{name}"


def test_a_timeout_ends_the_program():
    sample = measure.run_child(["sleep", "30"], timeout=0.2)
    assert sample.timed_out and sample.failure() == "timed out" and sample.wall_s < 5


def test_output_and_input_pass_through():
    sample = measure.run_child(["sh", "-c", "cat; echo problem >&2"], stdin="word\n" * 50_000)
    assert sample.stdout == "word\n" * 50_000 and sample.stderr == "problem\n"


def test_input_from_a_file_and_a_folder_to_run_in(tmp_path):
    (tmp_path / "input").write_text("text")
    sample = measure.run_child(["sh", "-c", "cat; pwd"], stdin=tmp_path / "input", cwd=tmp_path)
    assert sample.stdout == f"text{tmp_path.resolve()}\n"


def test_the_environment_is_the_callers_without_preloads(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent.so")
    monkeypatch.setenv("NEARMALLOC_STATS", "1")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    sample = measure.run_child(["env"], env={"LAB_WORD": "here"})
    assert "LAB_WORD=here" in sample.stdout
    for setting in ("LD_PRELOAD", "NEARMALLOC_", "MALLOC_ARENA_MAX"):
        assert setting not in sample.stdout


def test_a_program_that_does_not_exist_is_an_error():
    with pytest.raises(measure.MeasureError, match="cannot be started"):
        measure.run_child(["/nonexistent/program"])


def test_a_missing_launcher_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("NEAR_LAB_BUILD", str(tmp_path))
    with pytest.raises(measure.MeasureError, match="near build"):
        measure.run_child(["true"])


def test_what_is_left_running_is_ended():
    sample = measure.run_child(["sh", "-c", "setsid sleep 100 & echo $!"])
    assert sample.left_running == 1
    assert not Path(f"/proc/{sample.stdout.strip()}").exists()


def test_a_tree_is_summed_over_its_processes():
    command = " ".join(map(str, touch(200)))
    both = measure.run_child(["sh", "-c", f"{command} & {command}; wait"], tree=True)
    one = measure.run_child(touch(200), tree=True)
    assert [process.program.rsplit("/")[-1] for process in both.processes].count("large_churn") == 2
    assert both.peak_rss_kib > one.peak_rss_kib * 0.9


def test_processes_of_a_tree_are_each_proved():
    sample = measure.run_child(["sh", "-c", "ls / >/dev/null; true"], tree=True)
    assert {process.served_by for process in sample.processes} == {"glibc"}
    assert len(sample.processes) == 2


def test_a_server_is_terminated_and_measured():
    with measure.start_child(["sleep", "100"]) as child:
        assert child.running() and Path(f"/proc/{child.pid}").exists()
        child.terminate()
        sample = child.wait()
    assert sample.signal == 15


def test_a_child_that_is_dropped_is_ended():
    with measure.start_child(["sleep", "100"]) as child:
        pid = child.pid
    assert processes.ends(pid)


def test_many_threads_do_not_disturb_the_measuring():
    sample = measure.run_child([places.workload_dir() / "thread_churn", "--generations", 200])
    assert sample.ok and sample.peak_rss_kib > 0 and sample.served_by == "glibc"
