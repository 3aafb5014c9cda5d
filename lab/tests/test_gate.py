"""The regression gate on real measurements: it detects 5 % more instructions and 10 % more memory
that a library was given, and nothing when the same library is measured twice.

Invariant: the instructions are added so that callgrind itself counts 5 % more. Time is measured but
not judged: on a loaded machine the two halves of this test differ as much as two days.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

import results
from nearlab import places
from nearlab.commands import application
from nearlab.measure import callgrind, measure

pytestmark = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")

HERE = Path(__file__).parent
CELL = "threadtest"
# 16 MiB at a time, so that the program itself has a small share of the memory.
LIVE = ("--threads", "1", "--size", "1024", "--objects", "16384", "--rounds", "1")
SAMPLE = 1000  # the iterations in the run that gives the price of one


class Libraries:
    """Builds of burden.c."""

    def __init__(self, folder: Path):
        self._folder = folder

    def built(self, work: int = 0, pad: int = 0) -> Path:
        library = self._folder / f"libburden-{work}-{pad}.so"
        options = ["-O1", "-shared", "-fPIC", f"-DWORK={work}", f"-DPAD={pad}"]
        subprocess.run(["cc", *options, "-o", library, HERE / "burden.c"], check=True)
        return library


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> Libraries:
    return Libraries(tmp_path_factory.mktemp("burden"))


def argv() -> list[str]:
    program = places.workload_dir() / "threadtest"
    if not program.exists():
        pytest.skip("the workloads are not built")
    return [str(program), *LIVE]


def counted(library: Path) -> int:
    found = callgrind.count(argv(), library)
    assert found.failure is None
    return found.instructions


def measured(path: Path, library: Path) -> Path:
    """Results of five rounds and one count, in a file."""
    header = results.plan([results.allocator("shim")], [results.cell(CELL, argv())])
    records = [results.instructions(CELL, "shim", counted(library))]
    for number in range(6):
        sample = measure.run_child(argv(), preload=library, timeout=60)
        assert sample.failure() is None and sample.served_by == library.name
        metrics = {
            "seconds": json.loads(sample.stdout)["seconds"],
            "cpu_s": sample.cpu_s,
            "memory_kib": sample.peak_total_kib,
        }
        records.append(results.run(CELL, "shim", number, metrics))
    return results.write(path, header, records)


def gate(before: Path, after: Path) -> tuple[int, dict[str, dict]]:
    """Exit status, and the rows by quantity."""
    out = after.with_suffix(".json")
    options = ["--json", str(out), "--fail-on-regression", "--threshold-time", "1e6"]
    done = CliRunner().invoke(application(), ["compare", str(before), str(after), *options])
    return done.exit_code, {row["quantity"]: row for row in json.loads(out.read_text())["rows"]}


@pytest.fixture(scope="module")
def before(libraries, tmp_path_factory) -> Path:
    return measured(tmp_path_factory.mktemp("results") / "before.jsonl", libraries.built())


def work_for(libraries: Libraries, part: float) -> int:
    """The iterations that add this fraction to the instructions of the whole program."""
    none, many = counted(libraries.built()), counted(libraries.built(work=SAMPLE))
    return round(part * none / ((many - none) / SAMPLE))


def test_five_percent_more_instructions_are_a_regression(libraries, before, tmp_path):
    slower = libraries.built(work=work_for(libraries, 0.05))
    status, rows = gate(before, measured(tmp_path / "after.jsonl", slower))
    assert status == 1
    assert rows["instructions"]["verdict"] == "more"
    assert rows["instructions"]["ratio"]["value"] == pytest.approx(1.05, abs=0.005)
    assert rows["peak memory"]["verdict"] == "same"


def test_ten_percent_more_memory_is_a_regression(libraries, before, tmp_path):
    status, rows = gate(before, measured(tmp_path / "after.jsonl", libraries.built(pad=12)))
    assert status == 1
    assert rows["peak memory"]["verdict"] == "larger"
    assert rows["peak memory"]["ratio"]["value"] == pytest.approx(1.1, abs=0.02)
    assert rows["instructions"]["verdict"] == "same"


def test_the_same_library_measured_again_is_the_same(libraries, before, tmp_path):
    status, rows = gate(before, measured(tmp_path / "after.jsonl", libraries.built()))
    assert status == 0
    assert rows["instructions"]["verdict"] == rows["peak memory"]["verdict"] == "same"
