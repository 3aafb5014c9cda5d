#!/usr/bin/env python3
"""What near_explain says: its parts add up to what the kernel counts, and planted memory is found.

The kernel's count is read from outside, while the program waits for input.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from preload import PROGRAMS, PreloadTest, count, environment, main, program, run

KIB = re.compile(r"^ *(\d+) KiB (.*)$", re.MULTILINE)
SUM = re.compile(r"^ *(\d+) KiB is their sum; the kernel counts (\d+) KiB", re.MULTILINE)
LAST = "Page tables take"

PYTHON = """
import threading
kept = [[str(i) * (i % 50) for i in range(j, j + 3000)] for j in range(20)]
del kept[::3]
buffers = [bytearray(1000 * i) for i in range(300)]
def work():
    mine = [bytes(i) for i in range(2000)]
    stop.wait()
stop = threading.Event()
threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
[thread.start() for thread in threads]
print("ready", flush=True)
input()
"""
SHELL = 'n=0; while [ $n -lt 3000 ]; do x="$x word$n"; n=$((n+1)); done; echo ready; read line'
PERL = 'my %h; $h{$_} = "v" x ($_ % 300) for 1..40000; delete $h{$_*3} for 1..9000; $|=1; '\
       'print "ready\\n"; <STDIN>;'
RUBY = 'a = (1..50000).map { |i| "s" * (i % 200) }; a.shift(20000); GC.start; puts "ready"; '\
       '$stdout.flush; gets'
NODE = 'const m = new Map(); for (let i = 0; i < 1e5; i++) m.set(i, "v".repeat(i % 90)); '\
       'const b = [...Array(200)].map((_, i) => Buffer.alloc(1000 * i, 1)); '\
       'console.log("ready"); process.stdin.resume();'
PHP = '$a = []; for ($i = 0; $i < 50000; $i++) $a[] = str_repeat("x", $i % 300); '\
      'echo "ready\\n"; while (!feof(STDIN)) fgets(STDIN);'
SQL = b"""create table t(id integer primary key, name text);
with recursive n(i) as (select 1 union all select i+1 from n where i < 20000)
insert into t select i, printf('name %d', i*7919%10007) from n;
create index names on t(name); delete from t where id % 3 = 0;
select 'ready';
"""


class Explained:
    """A program that waits for input, with what it says at a signal."""

    def __init__(self, command: list[str | Path], stdin: bytes = b"", ready: bytes = b"ready",
                 **options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.errors = self.folder / "errors"
        variables = environment(True, {"NEARMALLOC_EXPLAIN": "signal"} | options, summary=False)
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen([str(part) for part in command], env=variables,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors)
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(stdin)
        self.process.stdin.flush()
        self.said = b""
        while ready not in self.said:
            more = self.process.stdout.read1(65536)
            assert more, f"{command} ended early: {self.errors.read_bytes()!r}"
            self.said += more
        time.sleep(0.3)

    def __enter__(self) -> "Explained":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def explain(self) -> str:
        """The second explanation: the first one makes pages of its own code resident."""
        end = time.monotonic() + 30
        for number in (1, 2):
            os.kill(self.process.pid, signal.SIGUSR2)
            while (text := self.errors.read_text(errors="replace")).count(LAST) < number:
                assert time.monotonic() < end, f"nothing was explained: {text}"
                time.sleep(0.02)
        return "nearmalloc" + text.split("nearmalloc")[2]

    def resident(self) -> int:
        """In KiB, as the kernel counts it."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii")
        return int(rollup.split("Rss:")[1].split()[0])


def part(text: str, words: str) -> int:
    """The KiB of the sentences that begin with these words."""
    return sum(int(kib) for kib, sentence in KIB.findall(text) if sentence.startswith(words))


class Explain(PreloadTest):
    def expect_sum(self, explained: Explained) -> str:
        text = explained.explain()
        found = SUM.search(text)
        assert found is not None, text
        said, kernel, outside = int(found[1]), int(found[2]), explained.resident()
        parts = sum(int(kib) for kib, sentence in KIB.findall(text) if "their sum" not in sentence)
        self.assertLess(abs(parts - said), 20, f"parts that are rounded\n{text}")
        self.assertLess(abs(said - kernel), 0.02 * kernel, text)
        self.assertLess(abs(said - outside), 0.02 * outside, f"{outside} KiB from outside\n{text}")
        count()
        return text

    def expect_sum_of(self, command: list[str | Path], **options) -> None:
        with Explained(command, **options) as explained:
            self.expect_sum(explained)

    def test_python(self) -> None:
        self.expect_sum_of([sys.executable, "-c", PYTHON.replace("THREADS", "0")])

    def test_python_with_threads_and_every_object_from_malloc(self) -> None:
        self.expect_sum_of([sys.executable, "-c", PYTHON.replace("THREADS", "6")],
                           PYTHONMALLOC="malloc")

    def test_sh(self) -> None:
        self.expect_sum_of([program("dash"), "-c", SHELL])

    def test_bash(self) -> None:
        self.expect_sum_of([program("bash"), "-c", SHELL])

    def test_perl(self) -> None:
        self.expect_sum_of([program("perl"), "-e", PERL])

    def test_ruby(self) -> None:
        self.expect_sum_of([program("ruby"), "-e", RUBY])

    def test_node(self) -> None:
        self.expect_sum_of([program("node"), "-e", NODE])

    def test_php(self) -> None:
        self.expect_sum_of([program("php"), "-r", PHP], USE_ZEND_ALLOC="0")

    def test_sqlite3(self) -> None:
        self.expect_sum_of([program("sqlite3"), ":memory:"], stdin=SQL)

    def test_redis(self) -> None:
        with tempfile.TemporaryDirectory(prefix="near-test-") as folder:
            command = [program("redis-server"), "--port", "0", "--save", "", "--unixsocket",
                       f"{folder}/socket"]
            self.expect_sum_of(command, ready=b"accept")

    def test_memory_of_known_kinds(self) -> None:
        with Explained([PROGRAMS / "explained"], ready=LAST.encode()) as explained:
            text = self.expect_sum(explained)
            found = SUM.search(text)
            assert found is not None
            self.assertLessEqual(abs(int(found[1]) - int(found[2])), 2, f"it is quiet\n{text}")
            for each in (explained.said.decode(), text):
                # The huge page at the end of the first block also lies in the second.
                self.assertIn(part(each, "are live large blocks"), range(10240, 10240 + 2112), each)
                small = part(each, "are live blocks of size classes")
                self.assertIn(small, range(20000 * 112 // 1024, 2700), each)
                free = part(each, "are free blocks in spans")
                self.assertIn(free, range(20000 * 104 // 1024, 2700), each)
                self.assertGreaterEqual(part(each, "are other anonymous memory"), 3072, each)
            count()

    def test_running_threads(self) -> None:
        """Their lists change while they are read."""
        with Explained([PROGRAMS / "explained", "4"], ready=LAST.encode()) as explained:
            self.expect_sum(explained)

    def expect_answers(self, explained: Explained, process: int) -> None:
        """All signals are answered when the thread is outside again: none is lost."""
        for number in range(1, 41):
            os.kill(process, signal.SIGUSR2)
            end = time.monotonic() + 30
            while explained.errors.read_text().count(LAST) < number:
                self.assertLess(time.monotonic(), end, f"signal {number} was not answered")
                time.sleep(0.002)
        self.assertIsNone(explained.process.poll())
        count()

    def test_signals_inside_the_allocator(self) -> None:
        with Explained([PROGRAMS / "explained", "-1"], ready=LAST.encode()) as explained:
            self.expect_answers(explained, explained.process.pid)

    def test_signals_inside_the_allocator_of_a_forked_child(self) -> None:
        """It has no timer of its parent's, and one of its own, which must not be set."""
        with Explained([PROGRAMS / "explained", "-2"], ready=b" churns\n") as explained:
            child = re.search(rb"^child (\d+) churns$", explained.said, re.MULTILINE)
            assert child is not None
            self.expect_answers(explained, int(child[1]))

    def test_pages_that_leave(self) -> None:
        script = PYTHON.replace("THREADS", "3") + "\ndel buffers\nprint('less', flush=True)"
        script += "\ninput()"
        with Explained([sys.executable, "-c", script], NEARMALLOC_DECAY_MS="600000") as explained:
            assert explained.process.stdin and explained.process.stdout
            explained.process.stdin.write(b"\n")
            explained.process.stdin.flush()
            explained.process.stdout.readline()
            text = self.expect_sum(explained)
            self.assertGreater(part(text, "are free slices that have not"), 20000, text)
            words = "leave when none was freed in it for 600000 ms (decay_ms), by the purge thread"
            self.assertIn(words, text)

    def test_nodes(self) -> None:
        """One of two pretended nodes has too little memory for the program."""
        script = PYTHON.replace("THREADS", "2")
        topology = {"NEARMALLOC_TOPOLOGY": "nodes=2;cpus=0-1023,1024-2047",
                    "NEARMALLOC_REGION_MIB": "16"}
        with Explained([sys.executable, "-c", script], PYTHONMALLOC="malloc",
                       **topology) as explained:
            text = self.expect_sum(explained)
            found = re.search(r"^Other nodes served (\d+) requests of a node", text, re.MULTILINE)
            assert found is not None, text
            self.assertGreater(int(found[1]), 0, text)
            self.assertIn("s ago: node 1 served what node 0 could not.\n", text)

    def test_events(self) -> None:
        """Growth, what was given back, and a double free that was only reported."""
        script = ("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
                  "block = ctypes.c_void_p(libc.malloc(3000))\nlibc.free(block); libc.free(block)\n"
                  "kept = bytearray(50_000_000)\ndel kept\nlibc.malloc_trim(0)")
        result = run([sys.executable, "-c", script], summary=False,
                     extra={"NEARMALLOC_EXPLAIN": "exit", "NEARMALLOC_INVALID": "report"})
        self.assert_good(result)
        events = re.findall(r"^ *\d+\.\d s ago: (.*)$", result.err.decode(), re.MULTILINE)
        for pattern in (r"node 0 grew by \d{5,} KiB\.", r"node 0 gave \d{5,} KiB back\.",
                        "an invalid or double free, or a damaged free list, was detected."):
            self.assertTrue(any(re.fullmatch(pattern, event) for event in events), events)
        count()

    def test_at_exit(self) -> None:
        result = run([PROGRAMS / "workload"], extra={"NEARMALLOC_EXPLAIN": "exit"}, summary=False)
        self.assert_good(result)
        self.assertEqual(result.err.decode().count(LAST), 1)
        count()

    def test_at_exit_without_proc(self) -> None:
        """As if it were missing: no file can be opened."""
        script = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
        result = run([sys.executable, "-c", script], extra={"NEARMALLOC_EXPLAIN": "exit"},
                     summary=False)
        self.assert_good(result)
        self.assertEqual(result.err, b"nearmalloc: nothing is explained: /proc cannot be read\n")
        count()

    def test_not_unless_it_is_asked_for(self) -> None:
        command = [program("dash"), "-c", "kill -USR2 $$; echo alive"]
        self.assertEqual(run(command, summary=False).status, -signal.SIGUSR2)
        count()


if __name__ == "__main__":
    main()
