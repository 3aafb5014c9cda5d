#!/usr/bin/env python3
"""The table of programs can say no: rows that go wrong on purpose get the verdict they deserve."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict
from pathlib import Path

import counts
from preload import LIBRARY, PreloadTest, count, main
from program import COUNTER, FAILS, NOT_SERVED, PATH, SKIPPED, WORKS, Verdict, judge
from rows import HERE, Row, load, parse
from table import lines

WORK = "perl -e 'my %h; $h{$_} = \"v$_\" for 1..3000; print scalar(keys %h), \"\\n\"'"
PRELOADED = '[[ -n ${LD_PRELOAD:-} ]]'


class Harness(PreloadTest):
    def setUp(self) -> None:
        if shutil.which("perl", path=PATH) is None:
            self.skipTest("perl is not installed")
        count()

    def verdict(self, script: str, *, library: Path = LIBRARY, **fields) -> Verdict:
        made = {"name": "made", "packages": ["perl"], "needs": ["perl"], "version": "echo 1"}
        return judge(Row(**(made | {"script": script} | fields)), library)

    def test_a_program_that_does_the_same_works(self) -> None:
        found = self.verdict(WORK)
        self.assertEqual((found.verdict, found.good, found.problems), (WORKS, found.runs, []))
        self.assertGreater(found.calls, 3000)

    def test_another_output_is_a_failure(self) -> None:
        found = self.verdict(f'{WORK}; {PRELOADED} && echo more; true')
        self.assertEqual((found.verdict, found.good), (FAILS, 0))

    def test_another_status_is_a_failure(self) -> None:
        found = self.verdict(f"{WORK}; ! {PRELOADED}")
        self.assertEqual((found.verdict, found.good), (FAILS, 0))

    def test_a_missing_word_is_a_failure_where_the_output_may_differ(self) -> None:
        script = f"{WORK}; echo $RANDOM; {PRELOADED} || echo good"
        self.assertEqual(self.verdict(script, same=False, expect="^good$").verdict, FAILS)
        self.assertEqual(self.verdict(script + "; echo good", same=False, expect="^good$").verdict,
                         WORKS)

    def test_a_complaint_of_the_library_is_a_failure(self) -> None:
        found = self.verdict(f'{WORK}; {PRELOADED} && echo "nearmalloc: invalid free" >&2; true')
        self.assertEqual(found.verdict, FAILS)
        self.assertIn("invalid free", found.problems[0])

    def test_one_bad_run_is_a_failure(self) -> None:
        # A run without the allocator, a counted one, and then the first judged one.
        script = f"{WORK}; echo x >>$PREPARED/runs; [[ $(wc -l <$PREPARED/runs) -ne 3 ]]"
        found = self.verdict(script)
        self.assertEqual((found.verdict, found.good), (FAILS, found.runs - 1))

    def test_few_calls_are_no_pass(self) -> None:
        self.assertEqual(self.verdict("echo x", counted=["bash"], least=10**6).verdict, FAILS)
        found = self.verdict("echo x", counted=["no-such-program"], own_malloc="because")
        self.assertEqual((found.verdict, found.calls, found.remark), (NOT_SERVED, 0, "because"))

    def test_calls_that_another_malloc_answers_do_not_count(self) -> None:
        found = self.verdict(WORK, library=COUNTER)
        self.assertEqual((found.verdict, found.calls), (FAILS, 0))

    def test_calls_count_of_processes_that_end_in_any_way(self) -> None:
        ends = {"exit": "exit 0", "_exit": "use POSIX; POSIX::_exit(0)", "kill": "kill 9, $$",
                "exec": "exec '/usr/bin/true'"}
        for name, end in ends.items():
            with self.subTest(name):
                work = f"my %h; $h{{$_}} = \"v$_\" for 1..3000; {end}"
                found = self.verdict(f'perl -e {quoted(work)} 2>/dev/null || true; echo done')
                self.assertEqual(found.verdict, WORKS)
                self.assertGreater(found.calls, 3000)

    def test_a_fork_counts_on(self) -> None:
        work = "if (my $c = fork) { waitpid $c, 0 } else { my %h; $h{$_} = 1 for 1..9000 }"
        self.assertGreater(self.verdict(f"perl -e {quoted(work)}; echo done").calls, 9000)

    def test_what_is_missing_or_refused_is_skipped(self) -> None:
        self.assertEqual(self.verdict(WORK, needs=["no-such-program"]).verdict, SKIPPED)
        self.assertEqual(self.verdict(WORK, needs=["/no/such/*"]).verdict, SKIPPED)
        self.assertEqual(self.verdict(WORK, prepare="false").verdict, SKIPPED)
        self.assertEqual(self.verdict("echo refused >&2; exit 3").verdict, SKIPPED)
        self.assertEqual(self.verdict("true").verdict, SKIPPED)  # it prints nothing to compare

    def test_what_a_row_leaves_behind_is_ended(self) -> None:
        mark = f"{time.monotonic_ns() % 10**9 + 10**6}"  # seconds, as a name to find it by
        found = self.verdict(f"{WORK}; setsid sleep {mark} >/dev/null 2>&1 & {WORK}; sleep 0.1")
        self.assertEqual(found.verdict, WORKS)
        left = [path for path in Path("/proc").glob("[0-9]*/cmdline")
                if mark.encode() in readable(path)]
        self.assertEqual(left, [])

    def test_a_server_that_ends_is_not_waited_for(self) -> None:
        begin = time.monotonic()
        self.assertEqual(self.verdict("sleep 0.1 & until_done false").verdict, SKIPPED)
        self.assertLess(time.monotonic() - begin, 10)


class Table(PreloadTest):
    def test_every_package_is_one_that_near_installs(self) -> None:
        table = HERE.parents[1] / "driver/neardriver/packages.toml"
        purposes = tomllib.loads(table.read_text(encoding="utf-8"))
        listed = {package for packages in purposes.values() for package in packages}
        for row in load():
            count()
            for package in row.packages:
                self.assertIn(package, listed)

    def test_every_input_is_used(self) -> None:
        scripts = "".join(row.script + row.prepare for row in load())
        for path in (HERE / "inputs").iterdir():
            self.assertIn(f"$INPUTS/{path.name}", scripts)

    def test_a_row_with_a_slip_is_refused(self) -> None:
        good = 'packages = []\nneeds = []\nversion = ""\nscript = ""\n'
        self.assertEqual(parse(f"[a]\n{good}")[0].name, "a")
        for slip in ("sript = 1", "least = true", 'needs = "perl"', "timeout = '3'"):
            with self.assertRaises((ValueError, TypeError)):
                parse(f"[a]\n{good.replace('needs = []', '')}{slip}")

    def test_it_has_every_row_and_its_problems(self) -> None:
        first = load()[0]
        with tempfile.TemporaryDirectory() as folder:
            verdict = Verdict(first.name, FAILS, "1.0", 2, 3, 12345, "odd", ["run 1: wrong"])
            (Path(folder) / f"{first.name}.json").write_text(json.dumps(asdict(verdict)))
            table = lines(Path(folder))
        self.assertEqual(len(table), len(load()) + 1)
        self.assertIn((first.name, "1.0", FAILS, "2/3", "12,345", "run 1: wrong; odd"), table)
        self.assertEqual({line[2] for line in table[1:]}, {FAILS, "did not run"})

    def test_the_counter_reads_what_it_wrote(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "counts"
            counts.make(path)
            self.assertEqual(counts.read(path), [])
            subprocess.run(["/usr/bin/true"], check=True,
                           env={"LD_PRELOAD": f"{COUNTER}:{LIBRARY}", "NEAR_COUNT_FILE": str(path)})
            found = counts.read(path)
        self.assertEqual([(Path(each.path).name, each.ours) for each in found], [("true", 1)])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def readable(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


if __name__ == "__main__":
    if not COUNTER.is_file():
        sys.exit(f"{COUNTER} is not built")
    main()
