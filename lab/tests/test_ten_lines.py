"""The ten lines of README.md that add an allocator, a program or a workload do so as written."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nearlab import places


def block(language: str) -> str:
    """The section's block of code in this language."""
    text = (places.ROOT / "lab" / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## An allocator.*?^## ", text, re.MULTILINE | re.DOTALL)[0]
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert len(found.splitlines()) <= 10
    return found


def nearlab(folder: Path, *words: str, **variables: str) -> str:
    """Runs the command line in the folder, where its results are, too."""
    more = {"PYTHONPATH": str(places.ROOT / "lab"), "NEAR_LAB_RESULTS": str(folder / "results")}
    done = subprocess.run(
        [sys.executable, "-m", "nearlab", *words],
        cwd=folder,
        env=os.environ | more | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines_of(folder: Path, plan: str) -> list[dict]:
    (file,) = (folder / "results" / plan).glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_plan_of_ten_lines_adds_an_allocator_and_a_program(tmp_path):
    (tmp_path / "mine.toml").write_text(block("toml"))
    (tmp_path / "libmine.so").write_bytes(places.nearmalloc_library().read_bytes())
    out = nearlab(tmp_path, "run", "mine.toml", "--rounds", "1")
    assert "real programs" in out and "failed" not in out
    runs = [line for line in lines_of(tmp_path, "mine") if line["kind"] == "run"]
    places_run = {(run["cell"], run["allocator"]) for run in runs if run["failure"] is None}
    assert places_run == {(c, a) for c in ("larson", "sort") for a in ("glibc", "mine")}
    page = nearlab(
        tmp_path, "report", str(tmp_path / "results" / "mine"), "-o", str(tmp_path / "p")
    )
    assert (tmp_path / "p" / "index.html").is_file() and "index.html" in page


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder like that of the lab's programs, where the file is compiled as the workloads are."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "workloads").mkdir()
    (folder / "bench").symlink_to(places.bench_dir())
    source = folder / "one_size.cc"
    source.write_text(block("cpp"))
    commands = json.loads((places.lab_build().parent / "compile_commands.json").read_text())
    like = next(each for each in commands if each["file"].endswith("/workloads/threadtest.cc"))
    options = shlex.split(like["command"].partition(" -o ")[0])
    options = [word for word in options if not word.endswith("ccache")]
    archive = next(places.lab_build().rglob("libnear_workload.a"))
    more = [f"-I{places.ROOT}/lab/workloads", source, archive, "-pthread"]
    target = ["-o", folder / "workloads" / "one_size"]
    subprocess.run([*options, *more, *target], cwd=like["directory"], check=True)
    return folder


def test_a_workload_is_one_file_of_ten_lines(built, tmp_path):
    chosen = ("--rounds", "1", "--allocators", "glibc,nearmalloc")
    variables = {"NEAR_LAB_BUILD": str(built), "NEAR_LIBRARY": str(places.nearmalloc_library())}
    assert "one_size" in nearlab(tmp_path, "run", "one_size", *chosen, **variables)
    good = [line for line in lines_of(tmp_path, "one_size") if line["kind"] == "run"]
    assert len(good) == 4 and all(line["result"]["operations"] == 10**6 for line in good)
    assert "allocates BLOCKS of 64 bytes" in nearlab(tmp_path, "list", **variables)


def test_every_file_with_a_main_is_built():
    folder = places.ROOT / "lab" / "workloads"
    main = {file.stem for file in folder.glob("*.cc") if "\nint main(" in file.read_text()}
    assert len(main) > 20 and main <= {path.name for path in places.workload_dir().iterdir()}
