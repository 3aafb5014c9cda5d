"""The driver: bad input is refused in one line, an allocator of one's own runs with one command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearmanycore import commands, machines, places, subjects, workloads
from nearmanycore.machines import MachineError
from nearmanycore.subjects import SubjectError

OWN = Path(__file__).parent / "own_allocator.c"


def near(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "nearmanycore", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_list_names_everything() -> None:
    done = near("list")
    assert done.returncode == 0
    for name in [*machines.names(), *workloads.all_of_them(), *subjects.names()]:
        assert name in done.stdout


@pytest.mark.parametrize("name", machines.names())
def test_machines_are_valid(name: str) -> None:
    named = machines.load(name)
    lines = machines.lines(named)
    assert f"processors {named.machine.processors}" in lines
    assert sum(line.startswith("distance ") for line in lines) == named.machine.nodes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sockets = 1", "sockets = 0"), "sockets"),
        (("sockets = 1", "sockets = 1\nextra = 2"), "extra"),
        (("threads = 1\n", ""), "threads"),
        (("[10]", "[10, 20]"), "row 0"),
        (("[10]", "[11]"), "row 0"),
        (("cores = 2", "cores = 513"), "cores"),
        (("sockets = 1", "sockets = "), "Invalid value"),
    ],
)
def test_malformed_machines_are_refused(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    text = (places.MACHINES / "here.toml").read_text(encoding="utf-8")
    assert change[0] in text
    path = tmp_path / "wrong.toml"
    path.write_text(text.replace(change[0], change[1], 1), encoding="utf-8")
    with pytest.raises(MachineError, match=message):
        machines.load(str(path))


def test_topology_files(tmp_path: Path) -> None:
    machine = machines.load("xeon-8160x4").machine
    machines.write_topology(machine, 100, tmp_path)
    assert (tmp_path / "cpu/online").read_text() == "0-99\n"
    assert (tmp_path / "node/online").read_text() == "0-3\n"
    assert (tmp_path / "node/node0/cpulist").read_text() == "0-23,96-99\n"
    assert (tmp_path / "node/node1/distance").read_text() == "21 10 21 21\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing"], "there is no workload nothing"),
        (["run", "threadtest", "--machine", "none"], "there is no machine none"),
        (["run", "threadtest", "--machine", "here", "--processors", "3"], "from 1 to 2"),
        (["run", "threadtest", "--processors", "x"], "is no list of numbers"),
        (["run", "threadtest", "--allocators", "glibc"], "cannot be instrumented"),
        (["run", "threadtest", "--allocators", "other"], "there is no allocator other"),
        (["run", "threadtest", "--allocators", "a=/no/file.c"], "there is no file"),
        (["run", "threadtest", "--allocators", "a-b=x.c"], "is no name"),
        (["report", "/no/folder"], "holds no result"),
    ],
)
def test_wrong_requests_end_with_2(arguments: list[str], message: str) -> None:
    done = near(*arguments)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_sources_that_do_not_compile(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.c"
    wrong.write_text("int malloc(\n")
    with pytest.raises(SubjectError, match="gcc failed"):
        subjects.find(f"wrong={wrong}")


def test_sources_without_free(tmp_path: Path) -> None:
    lone = tmp_path / "lone.c"
    lone.write_text("#include <stddef.h>\nvoid* malloc(size_t n) { return (void*)n; }\n")
    with pytest.raises(SubjectError, match="no free"):
        subjects.find(f"lone={lone}")


def test_libraries_that_are_not_instrumented(tmp_path: Path) -> None:
    plain = tmp_path / "plain.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(OWN), "-o", str(plain)], check=True)
    with pytest.raises(SubjectError, match="not instrumented"):
        subjects.find(f"plain={plain}")


def test_processor_lists() -> None:
    assert commands._numbers("all", 12) == [1, 2, 4, 8, 12]
    assert commands._numbers("1, 3", 4) == [1, 3]


def test_an_own_allocator_in_one_command(tmp_path: Path) -> None:
    """Its one lock is what the report names."""
    done = near(
        "run", "threadtest", "--machine", "xeon-8160x4", "--processors", "1,8",
        "--allocators", f"near,own={OWN}", "--out", str(tmp_path),
        "--argument=--rounds=2",
    )
    assert done.returncode == 0, done.stderr
    assert "simulated on xeon-8160x4" in done.stdout
    assert "lock" in done.stdout
    assert (tmp_path / "throughput.svg").stat().st_size > 0
    kept = json.loads((tmp_path / "threadtest-own-xeon-8160x4-8.json").read_text())
    assert kept["workload"]["verified"] is True
    own = kept["workload"]["operations"] / kept["workload"]["seconds"]
    ours = json.loads((tmp_path / "threadtest-near-xeon-8160x4-8.json").read_text())
    assert ours["workload"]["operations"] / ours["workload"]["seconds"] > own
    again = near("report", str(tmp_path))
    assert again.returncode == 0
    assert "why: own on 8 processors" in again.stdout
