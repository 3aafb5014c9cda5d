"""A count covers the whole named program and nothing else; an error says what prevents it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from nearlab import places
from nearlab.measure import callgrind

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")


def pairs(rounds: int) -> list[str | Path]:
    return [places.bench_dir() / "instructions", "pair", "16", str(rounds), "empty"]


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    built = tmp_path_factory.mktemp("burden") / "libburden.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", built, HERE / "burden.c"], check=True)
    return built


def test_the_same_run_gives_the_same_count():
    first, second = (callgrind.count(pairs(1000)).instructions for _ in range(2))
    assert first == pytest.approx(second, rel=1e-3) and first > 1000


def test_what_the_program_costs_without_work_can_be_taken_off():
    """Only the loop is linear: without the rest, ten times the work is ten times the count."""
    idle = pairs(0)
    once, ten = (
        callgrind.count(pairs(rounds), idle=idle).instructions for rounds in (10_000, 100_000)
    )
    assert ten == pytest.approx(10 * once, rel=0.01)


def test_processes_that_it_starts_are_not_counted():
    program = " ".join(map(str, pairs(2_000_000)))
    with_child = callgrind.count(["sh", "-c", f"{program}; true"])
    assert with_child.failure is None and with_child.instructions < 2_000_000


def test_a_fork_that_goes_on_is_not_counted():
    heavy = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"
    forked, same = (
        callgrind.count(["sh", "-c", f"{script}; true"]).instructions
        for script in (f"({heavy})", heavy)
    )
    assert forked < same / 2


def test_the_preloaded_library_served(library):
    found = callgrind.count(pairs(1000), library)
    assert found.failure is None and found.instructions > 1000


def test_a_library_that_did_not_serve_is_a_failure():
    found = callgrind.count(pairs(1000), "/nowhere/liballocator.so")
    assert found.instructions is None and found.failure == "liballocator.so did not serve it"


@pytest.mark.parametrize(
    "script,why",
    [
        ("echo no luck >&2; exit 3", "exit code 3 under callgrind: no luck"),
        ("kill -SEGV $$", "ended by SIGSEGV under callgrind"),
    ],
)
def test_a_program_that_fails_is_a_failure(script, why):
    found = callgrind.count(["sh", "-c", script])
    assert found.instructions is None and found.failure.startswith(why)


def test_a_program_that_is_not_there_is_a_failure():
    found = callgrind.count(["/nowhere/program"])
    assert found.instructions is None and "/nowhere/program" in found.failure


def test_a_program_that_hangs_is_ended():
    found = callgrind.count(["sleep", "60"], timeout=0.5)
    assert found.failure == "timed out under callgrind after 0.5 s"


def test_a_failure_without_work_is_told():
    found = callgrind.count(pairs(1000), idle=["sh", "-c", "exit 4"])
    assert found.failure == "without work: exit code 4 under callgrind"


def test_missing_valgrind_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert callgrind.count(["/bin/true"]).failure == "valgrind is not installed"
