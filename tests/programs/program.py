#!/usr/bin/env python3
"""Runs one row of the table: a program without the allocator, counted, and three times under it.

It compares what the program does and writes the verdict where table.py finds it.
Invariant: "works" means that each run was right and that the program made at least `least` calls
that nearmalloc answered; anything else has another name.
Thread-safety: ctest, `./near test programs`, and a person with a row's name.
"""

import argparse
import ctypes
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import counts
from preload import LIBRARY, PROGRAMS, ROUNDS, Result, count, run
from rows import HERE, Row, load

WORKS, FAILS, NOT_SERVED, SKIPPED = "works", "fails", "not served", "skipped"
SKIP_STATUS = 77
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
WHEELS = HERE.parents[1] / "build/wheels/bin/python3"  # ./near puts it there
COUNTER = PROGRAMS / "libcounting_malloc.so"
COMPLAINT = re.compile(rb"^nearmalloc: .*", re.MULTILINE)
# What every script begins with: it stops what it started, and can wait until a server answers.
PRELUDE = """
set -euo pipefail
end_jobs() {
  local running
  running="$(jobs -p)"
  if [[ -n $running ]]; then kill $running 2>/dev/null || true; wait; fi
}
trap end_jobs EXIT
until_done() {
  for _ in {1..200}; do
    if "$@" >/dev/null 2>&1; then return; fi
    if [[ -z $(jobs -rp) ]]; then break; fi  # the server has ended
    sleep 0.1
  done
  echo "gave up: $*" >&2
  return 1
}
"""


@dataclass
class Verdict:
    name: str
    verdict: str
    version: str = ""
    good: int = 0
    runs: int = 0
    calls: int = 0
    remark: str = ""
    problems: list[str] = field(default_factory=list)


def free_port() -> int:
    """One that no client gets for itself: else a question could come back as its answer."""
    for port in random.sample(range(15000, 30000), 100):
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
            try:
                stream.bind(("127.0.0.1", port))
                datagram.bind(("127.0.0.1", port))
                return port
            except OSError:  # it is taken
                continue
    raise OSError("there is no free port")


def adopt_descendants() -> None:
    """Makes this process the parent of what a row leaves behind, also of what left its group.

    A row can be interrupted, whatever this process inherited: tests of interpreters expect that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    set_child_subreaper = 36
    if ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError("prctl refuses a subreaper")


def end_descendants() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(100):
        left = [int(each) for each in children.read_text(encoding="ascii").split()]
        if not left:
            return
        for child in left:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


class Runner:
    """A row in a folder of its own, which any user may read: servers give up root."""

    def __init__(self, row: Row, library: Path = LIBRARY) -> None:
        self.row = row
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.folder.chmod(0o755)
        self.library = Path(shutil.copy(library.resolve(), self.folder / "libnearmalloc.so"))
        self.counter = Path(shutil.copy(COUNTER, self.folder / "libcounting.so"))
        self.file = self.folder / "counts"
        (self.folder / "prepared").mkdir()

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def missing(self) -> list[str]:
        places = {"$PYTHON": sys.executable, "$WHEELS": WHEELS}
        needs = [str(places.get(need, need)) for need in self.row.needs]
        return [need for need in needs
                if not (glob.glob(need) if "/" in need else shutil.which(need, path=PATH))]

    def bash(self, script: str, folder: str, preload: list[Path]) -> Result:
        """Runs `script` with the programs of the system alone, at home in a folder of its own."""
        place = self.folder / folder
        if folder == "run":
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        extra = {
            "PATH": PATH, "HOME": str(place), "TMPDIR": str(place),
            "PREPARED": str(self.folder / "prepared"), "INPUTS": str(HERE / "inputs"),
            "PYTHON": sys.executable, "WHEELS": str(WHEELS),
            "PORT": str(free_port()), "LIBRARIES": ":".join(map(str, preload)),
            "NEAR_COUNT_FILE": str(self.file),
        } | self.row.env
        if preload:
            extra |= {"LD_PRELOAD": ":".join(map(str, preload))}
        for name in [name for name in os.environ if name.startswith("PYTHON")]:
            del os.environ[name]  # this interpreter's, not that of a row
        result = run(["/usr/bin/bash", "-c", PRELUDE + script], preload=False, extra=extra,
                     cwd=place, timeout=self.row.timeout)
        end_descendants()
        return result

    def problem(self, result: Result, plain: Result) -> str:
        """What is wrong with a run, or nothing."""
        complaint = COMPLAINT.search(result.err)
        if complaint:
            return complaint.group().decode(errors="replace")
        if result.status != 0:
            return f"ended with {result.status}: {last_line(result)}"
        if not re.search(self.row.expect, result.out.decode(errors="replace"), re.MULTILINE):
            return f"the output has no {self.row.expect!r}: {last_line(result)}"
        if self.row.same and result.out != plain.out:
            return f"prints other things: {difference(result.out, plain.out)}"
        return ""

    def count_calls(self, plain: Result) -> tuple[int, str]:
        """The calls that nearmalloc answered in the row's executables, and what went wrong."""
        counts.make(self.file)
        result = self.bash(self.row.script, "run", [self.counter, self.library])
        mine = [each for each in counts.read(self.file) if each.is_one_of(self.row.executables)]
        if os.environ.get("NEAR_TEST_VERBOSE"):
            print(*counts.read(self.file), sep="\n")
        if any(each.others for each in mine):
            return 0, "a process found another malloc behind the counter"
        return sum(each.calls for each in mine), self.problem(result, plain)

    def judge(self) -> Verdict:
        row = self.row
        missing = self.missing()
        if missing:
            return Verdict(row.name, SKIPPED, remark=f"{' '.join(missing)} not found (Debian: "
                                                     f"{' '.join(row.packages)})")
        prepared = self.bash(row.prepare, "prepared", []) if row.prepare else None
        if prepared and prepared.status != 0:
            return Verdict(row.name, SKIPPED, remark=f"cannot prepare: {last_line(prepared)}")
        printed = self.bash(row.version, "run", []).out.decode(errors="replace")
        version = re.search(r"\d+(\.\d+)+(p\d+)?", printed) or re.search(r"\d+", printed)
        verdict = Verdict(row.name, SKIPPED, remark=row.remark,
                          version=version.group() if version else "")
        plain = self.bash(row.script, "run", [])
        problem = self.problem(plain, plain)
        if problem or (row.same and not plain.out):
            verdict.remark = f"without the library, too: {problem or 'it prints nothing'}"
            return verdict
        return self.compare(plain, verdict)

    def compare(self, plain: Result, verdict: Verdict) -> Verdict:
        verdict.calls, problem = self.count_calls(plain)
        verdict.problems = [f"counted: {problem}"] if problem else []
        for number in range(1, ROUNDS + 1):
            result = self.bash(self.row.script, "run", [self.library])
            problem = self.problem(result, plain)
            verdict.runs += 1
            verdict.good += not problem
            if problem:
                verdict.problems.append(f"run {number}: {problem}")
                print(f"--- run {number} of {self.row.name}: {result}", file=sys.stderr)
        few = verdict.calls < self.row.least
        if few and not self.row.own_malloc:
            verdict.problems.append(f"nearmalloc answered {verdict.calls} calls, which is few")
        verdict.verdict = FAILS if verdict.problems else NOT_SERVED if few else WORKS
        if verdict.verdict == NOT_SERVED:
            verdict.remark = self.row.own_malloc
        return verdict


def last_line(result: Result) -> str:
    text = (result.err.strip() or result.out.strip()).decode(errors="replace")
    return text.splitlines()[-1][:200] if text else "no word"


def difference(out: bytes, expected: bytes) -> str:
    for number, (one, other) in enumerate(
            zip(out.splitlines(), expected.splitlines(), strict=False), 1):
        if one != other:
            return f"line {number} is {one[:100]!r}, not {other[:100]!r}"
    return f"{len(out)} bytes, not {len(expected)}"


def judge(row: Row, library: Path = LIBRARY) -> Verdict:
    adopt_descendants()
    runner = Runner(row, library)
    try:
        return runner.judge()
    finally:
        runner.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="a row of rows/*.toml")
    parser.add_argument("--results", type=Path, help="a folder for the verdict, as JSON")
    arguments = parser.parse_args()
    rows = {row.name: row for row in load()}
    if arguments.name not in rows:
        parser.error(f"no row {arguments.name!r}; there are: {' '.join(rows)}")
    verdict = judge(rows[arguments.name])
    if arguments.results:
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / f"{verdict.name}.json").write_text(
            json.dumps(asdict(verdict), indent=1) + "\n", encoding="utf-8")
    print(f"{verdict.name} ({verdict.version}): {verdict.verdict}, {verdict.good} of "
          f"{verdict.runs} runs, {verdict.calls} calls served. {verdict.remark}")
    print(*verdict.problems, sep="\n")
    if verdict.verdict in (SKIPPED, NOT_SERVED):
        print(f"skipped: {verdict.name}: {verdict.verdict}: {verdict.remark}")
        return SKIP_STATUS
    count(verdict.runs)
    print(f"cases: {verdict.runs}")
    return 0 if verdict.verdict == WORKS else 1


if __name__ == "__main__":
    sys.exit(main())
