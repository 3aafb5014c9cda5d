"""Runs programs with and without the allocator under test preloaded and compares what they do.

The allocator is nearmalloc, or the published design that NEAR_TEST_DESIGN names, with the switches
of NEAR_TEST_DESIGN_OPTIONS.
Invariant: a preloaded run counts only if the allocator proves, by its summary at exit, that it
served.
Thread-safety: one thread of each process test uses it.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import unittest
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = Path(os.environ["NEAR_TEST_LIBRARIES"])
PROGRAMS = Path(os.environ["NEAR_TEST_PROGRAMS"])
DESIGN = os.environ.get("NEAR_TEST_DESIGN", "")
DESIGN_OPTIONS = os.environ.get("NEAR_TEST_DESIGN_OPTIONS", "")
LIBRARY = LIBRARIES / (f"designs/lib{DESIGN}.so" if DESIGN else "libnearmalloc.so")
API_LIBRARY = LIBRARIES / "libnearmalloc-api.so"
# A name that only the library under test exports.
OWN_NAME = "near_design_name" if DESIGN else "near_version"
SUMMARY = re.compile(rb"^%s \d+\.\d+\.\d+:.*\n?" % (DESIGN or "nearmalloc").encode(),
                     re.MULTILINE)
# The release build is what programs run on; the check build adds assertions, and time. There are
# many designs.
ROUNDS = 1 if DESIGN or os.environ.get("NEAR_TEST_BUILD") == "check" else 3
SKIPPED = 77  # a status that ctest knows

cases = 0


def count(number: int = 1) -> None:
    global cases
    cases += number


@dataclass
class Result:
    status: int
    out: bytes
    err: bytes

    @property
    def served(self) -> bool:
        return SUMMARY.search(self.err) is not None

    @property
    def complaints(self) -> bytes:
        """What was written to standard error, without the allocator's summaries."""
        return SUMMARY.sub(b"", self.err)

    def __str__(self) -> str:
        tail = self.complaints[-1500:].decode(errors="replace")
        return f"status {self.status}\n{self.out[-1500:].decode(errors='replace')}\n{tail}"


def environment(preload: bool, extra: dict[str, str] | None = None, *,
                summary: bool = True) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items()
                 if name != "LD_PRELOAD" and not name.startswith("NEARMALLOC_")}
    variables |= {"LC_ALL": "C.UTF-8", "TZ": "UTC"} | (extra or {})
    if preload:
        variables |= {"LD_PRELOAD": str(LIBRARY), "NEARMALLOC_STATS": str(int(summary))}
        if DESIGN_OPTIONS:
            variables["NEARMALLOC_DESIGN_OPTIONS"] = DESIGN_OPTIONS
    return variables


def run(command: Sequence[str | Path], *, preload: bool = True, summary: bool = True,
        extra: dict[str, str] | None = None, stdin: bytes = b"", cwd: Path | None = None,
        timeout: float = 120, limits: dict[int, int] | None = None,
        before: Callable[[], None] | None = None) -> Result:
    """Runs `command` in a process group of its own, under `limits`, and kills the group if late."""

    def prepare() -> None:
        for limit, value in (limits or {}).items():
            resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))
        if before:
            before()

    variables = environment(preload, extra, summary=summary)
    with subprocess.Popen([str(part) for part in command], env=variables, cwd=cwd,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True, preexec_fn=prepare) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += b"\nkilled: did not end in time\n"
    return Result(process.returncode, out, err)


def program(name: str) -> str:
    """The path of an installed program; skips the test where it is missing."""
    path = shutil.which(name)
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed")
    return path


class PreloadTest(unittest.TestCase):
    maxDiff = 2000

    def assert_good(self, result: Result) -> None:
        self.assertEqual(result.status, 0, str(result))

    def assert_served(self, result: Result) -> None:
        self.assertTrue(result.served, f"the allocator printed no summary\n{result}")

    def run_preloaded(self, command: Sequence[str | Path], **options) -> Result:
        """One preloaded run that ends well and was served."""
        result = run(command, **options)
        self.assert_good(result)
        self.assert_served(result)
        count()
        return result

    def same_output(self, command: Sequence[str | Path], rounds: int, **options) -> Result:
        """Preloaded runs that end and print as one without preload does."""
        expected = run(command, preload=False, **options)
        self.assert_good(expected)
        self.assertTrue(expected.out, "the program printed nothing to compare")
        for _ in range(rounds):
            result = self.run_preloaded(command, **options)
            self.assertEqual(result.out, expected.out)
            self.assertEqual(result.complaints, expected.complaints)
        return expected

    def same_three_times(self, command: Sequence[str | Path], **options) -> Result:
        return self.same_output(command, ROUNDS, **options)

    def same_once(self, command: Sequence[str | Path], **options) -> Result:
        return self.same_output(command, 1, **options)


def main() -> None:
    """Runs the tests of the calling module. The exit status is 1 if any failed or none ran, and
    SKIPPED if all that ran were skipped."""
    outcome = unittest.main(module="__main__", exit=False, verbosity=2).result
    for test, reason in outcome.skipped:
        print(f"skipped: {test}: {reason}")
    print(f"cases: {cases}")
    if outcome.wasSuccessful() and outcome.skipped and cases == 0:
        sys.exit(SKIPPED)
    sys.exit(0 if outcome.wasSuccessful() and cases > 0 else 1)
