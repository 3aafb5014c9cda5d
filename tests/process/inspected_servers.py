#!/usr/bin/env python3
"""Servers of Debian and a static program are looked at with every tool: top, core, GDB's commands,
exporter, leaks, pages, pprof, and what they explain themselves. Each tool finds the memory that the
clients caused. And nothing of all this is in a process that was not asked for it.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as families

import servers
from pprof import Pprof, top
from preload import PreloadTest, count, environment, main, program, run
from servers import BLOCK, HELD, LEAKED, REQUESTS, TOOLS, Server, starts

sys.path.insert(0, TOOLS)
from nearmalloc_tools.top.blocks import Blocks
from nearmalloc_tools.top.census import Reader
from nearmalloc_tools.top.process import Process, find_layout

LEAKS = starts("leaks", "--interval", "4096")
PAGE = starts("profile", "--interval", "8192", "--out", "FOLDER/page.html")
PROFILE_SIGNAL = signal.SIGRTMIN + 5  # one that no server handles
LOST = 3000 * REQUESTS
# A block of BLOCK bytes with what a program adds lies in a class of these sizes.
SIZES = range(BLOCK, BLOCK * 5 // 4)
ROW = re.compile(r"^ *(\d+) +\d+ +(\d+) +\d+ +\d", re.MULTILINE)  # of a size class
EXPLAINED = re.compile(r"why \d+ KiB are resident in process (\d+)\n(.*?Page tables take)",
                       re.DOTALL)
NAMES = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)  # of a metric


def tool(command: str, *words: str | int | Path) -> str:
    """What a command of `./near` prints."""
    found = subprocess.run([sys.executable, "-m", "nearmalloc_tools", command, *map(str, words)],
                           env=os.environ | {"PYTHONPATH": TOOLS, "PYTHONDONTWRITEBYTECODE": "1"},
                           capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def blocks_in(text: str) -> int:
    """The live blocks of SIZES in a table of size classes."""
    return sum(int(live) for size, live in ROW.findall(text) if int(size) in SIZES)


def block_of(pid: int) -> int:
    """The address of a live block of SIZES."""
    process = Process(pid)
    blocks = Blocks(Reader(process, find_layout(process)))
    free = blocks.free()
    found = next(block for number in reversed(range(blocks.count)) if not free[number]
                 and (block := blocks.block(number, free)).size in SIZES)
    return found.start


def settled(pid: int) -> dict[str, Any]:
    """What is seen of a process when it has done what it does after the last request."""
    end = time.monotonic() + 30
    states = [seen(pid)]
    while states[-5:] != [states[-1]] * 5:
        assert time.monotonic() < end, f"it does not come to rest: {states[-5:]}"
        time.sleep(0.1)
        states.append(seen(pid))
    return states[-1]


def seen(pid: int) -> dict[str, Any]:
    """What the kernel shows of a process, and a tool of this library could have changed."""
    folder = Path(f"/proc/{pid}")
    status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines())
    # The server closes the last connections when it likes, so one socket is as good as two.
    files = set()
    for each in (folder / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            files.add(re.sub(r":.*|near-test-[^/]*", "", str(each.readlink())))
    timers = folder / "timers"  # not every kernel has it
    return {
        "handlers": status["SigCgt"], "ignored": status["SigIgn"],
        "timers": timers.read_text() if timers.exists() else "",
        "threads": int(status["Threads"]),
        "children": len(servers.children(pid)), "files": sorted(files),
    }


class Inspected:
    """The tests that each server passes."""

    kind: type[Server]
    explain = "signal"

    def test_views_from_outside(self) -> None:
        with self.kind() as server:
            server.load()
            self.see_top(server)
            self.see_metrics(server)
            self.see_core(server)
            self.assertEqual(server.stop(), 0, server.said())

    def see_top(self, server: Server) -> None:
        pids = server.pids()
        found = {each["pid"]: each for each in json.loads(tool("top", *pids, "--once",
                                                               "--json"))}
        self.assertEqual(set(found), set(pids))
        for census in found.values():
            self.assertGreater(sum(each["live"] for each in census["classes"]), 100)
            self.assertIn("growth", [event["kind"] for event in census["events"]])
            self.assertIn(census["pid"], [heap["thread"] for heap in census["heaps"]],
                          "the main thread's heap")
        for pid in server.holding():
            live = sum(each["live"] for each in found[pid]["classes"] if each["size"] in SIZES)
            self.assert_about(live, REQUESTS, f"blocks in top's JSON of {pid}")
            text = tool("top", pid, "--once")
            self.assertIn(f" ({pid}): ", text)
            self.assert_about(blocks_in(text), REQUESTS, f"blocks in top's text of {pid}")
        name = found[server.pid]["name"]
        named = json.loads(tool("top", name, "--once", "--json"))
        self.assertLessEqual({pid for pid in pids if found[pid]["name"] == name},
                             {each["pid"] for each in named})
        count()

    def see_metrics(self, server: Server) -> None:
        pids = server.pids()
        live, growth = dict.fromkeys(pids, 0.0), dict.fromkeys(pids, 0.0)
        for name, words, value in NAMES.findall(tool("exporter", *pids, "--once")):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', words))
            if name == "nearmalloc_process_class_live_bytes" and int(labels["size"]) in SIZES:
                live[int(labels["pid"])] += float(value)
            if name == "nearmalloc_process_recorded_events_total" and labels["kind"] == "growth":
                growth[int(labels["pid"])] += float(value)
        for pid in server.holding():
            self.assertGreater(live[pid], HELD, f"bytes in the exporter's metrics of {pid}")
        self.assertTrue(all(growth.values()), growth)
        count()

    def see_core(self, server: Server) -> None:
        gdb = shutil.which("gdb")
        if gdb is None:
            print("left out: core files: gdb is not installed")
            return
        pid = server.holding()[-1]
        held = hex(block_of(pid))
        core = server.folder / "core"
        commands = [f"source {TOOLS}/nearmalloc_tools/debugger/near_gdb.py", "near heaps",
                    f"near block {held}", f"near span {held}", f"generate-core-file {core}"]
        words = [word for each in commands for word in ("-ex", each)]
        done = subprocess.run([gdb, "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off",
                               "-p", str(pid), *words],
                              capture_output=True, text=True, timeout=120, check=False)
        said = done.stdout + done.stderr
        self.assertTrue(core.exists(), said)
        self.assert_held(held, said)
        self.assertRegex(said, rf"heap 0 at 0x\w+: node 0, used by thread {pid}\b")
        text = tool("core", core)
        self.assertIn(f" ({pid}): ", text)
        self.assert_about(blocks_in(text), REQUESTS, "blocks in the core file")
        text = tool("core", core, "--heaps", "--events")
        self.assertRegex(text, r"heap 0 at 0x\w+: node 0, used")
        self.assertRegex(text, r"before the newest: node 0 grew by \d+ bytes")
        self.assert_held(held, tool("core", core, "--block", held, "--span", held))
        count()

    def assert_held(self, address: str, text: str) -> None:
        """`near block` and `near span` say of a block of SIZES that it is live."""
        block = re.search(rf"{address} is the start of a live block of (\d+) bytes", text)
        self.assertIn(int(block[1]) if block else 0, SIZES, text)
        self.assertRegex(text, rf"\n\d+ blocks of {block[1]} bytes: [1-9]\d* live, \d+ free")

    def test_it_explains_itself(self) -> None:
        with self.kind(NEARMALLOC_EXPLAIN=self.explain) as server:
            server.load()
            pids = server.holding()
            if self.explain == "exit":
                self.assertEqual(server.stop(), 0, server.said())
            else:
                os.kill(server.pid, signal.SIGUSR2)
            end = time.monotonic() + 30
            while len(found := dict(EXPLAINED.findall(server.said()))) < len(pids):
                self.assertLess(time.monotonic(), end, f"{pids} say: {server.said()}")
                time.sleep(0.02)
            for pid in pids:
                text = found[str(pid)]
                self.assertRegex(text, r"\d+ KiB are live blocks of size classes")
                self.assertRegex(text, r"ago: node 0 grew by \d+ KiB")
                sums = re.search(r"(\d+) KiB is their sum; the kernel counts (\d+) KiB", text)
                said, kernel = map(int, sums.groups() if sums else (0, 1))
                self.assertLess(abs(said - kernel), 0.02 * kernel, text)
                if self.explain != "exit":
                    kib = re.search(r"(\d+) KiB are live blocks of size classes", text)
                    self.assertGreater(int(kib[1]) * 1024, HELD, text)
            if self.explain != "exit":
                self.assertEqual(server.stop(), 0, server.said())
        count()

    def leaks(self) -> str:
        """The report of `./near run --leaks` about the main process."""
        with self.kind(tool=LEAKS) as server:
            server.load()
            pid = server.pid
            status = server.stop()
            said = server.said()
        report = re.search(rf"near: \S+ \({pid}\)[^\n]* (\d+) sampled blocks.*", said, re.DOTALL)
        assert report is not None, said
        self.assertGreater(int(report[1]), 20, said)
        lost = re.search(r"about ([\d.]+) (B|KiB|MiB)", report[0])
        self.assertEqual(status, LEAKED if lost else 0, said)
        units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
        self.lost = float(lost[1]) * units[lost[2]] if lost else 0.0
        count()
        return report[0]

    def test_leaks(self) -> None:
        report = self.leaks()
        self.assertLess(self.lost, HELD / 10, f"the program has what it holds\n{report}")

    def test_the_page(self) -> None:
        """It is about the process that allocated most."""
        with self.kind(tool=PAGE) as server:
            server.load()
            pids = server.holding()
            self.assertEqual(server.stop(), 0, server.said())
            said = re.search(r"near: process (\d+): .* ([\d.]+) MiB at the peak", server.said())
            assert said is not None, server.said()
            self.assertIn(int(said[1]), pids, server.said())
            self.assertGreater(float(said[2]), 0.75 * HELD / (1 << 20), server.said())
            self.assertNotIn("nearmalloc:", server.said())
            self.assert_page(server, int(said[1]))

    def assert_page(self, server: Server, pid: int) -> None:
        self.assertIn(f"Process {pid}", (server.folder / "page.html").read_text())
        count()

    def test_pprof_reads_its_profile(self) -> None:
        with self.kind(NEARMALLOC_PROFILE="on", NEARMALLOC_PROFILE_FORMAT="pprof",
                       NEARMALLOC_PROFILE_INTERVAL="8192",
                       NEARMALLOC_PROFILE_FILE="FOLDER/%p") as server:
            server.load()
            pids = server.holding()
            self.assertEqual(server.stop(), 0, server.said())
            for pid in pids:
                path = server.folder / str(pid)
                self.assertGreater(Pprof(path.read_bytes()).sum_of("peak_space"), 0.75 * HELD)
                said = top(path, "peak_space")
                total = re.search(r"Total samples = ([\d.]+)([kM])B", said)
                assert total is not None, said
                read = float(total[1]) * {"k": 1 << 10, "M": 1 << 20}[total[2]]
                self.assertGreater(read, 0.75 * HELD, said)
        count()

    def test_nothing_of_it_is_there_unless_asked_for(self) -> None:
        states, folders = [], []
        for preload in (False, True):
            with self.kind(preload=preload, TMPDIR="FOLDER", HOME="FOLDER") as server:
                server.load()
                states.append(settled(server.pid))
                folders.append(sorted(path.name for path in server.folder.iterdir()))
                self.assertEqual(server.stop(), 0, server.said())
                folders[-1] += sorted(path.name for path in server.folder.iterdir())
                self.assertNotIn("nearmalloc", server.said())
        self.assertEqual(folders[1], folders[0])
        self.assert_untouched(*states)
        count()

    def assert_untouched(self, plain: dict[str, Any], ours: dict[str, Any]) -> None:
        # A program with threads has the thread that purges, if the system's load lets it be seen.
        self.assertIn(ours.pop("threads") - plain.pop("threads"), (0, 1))
        self.assertEqual(ours, plain)

    def assert_about(self, found: int, truth: int, what: str) -> None:
        self.assertIn(found, range(truth, truth * 5 // 4), what)


class Grows(Inspected):
    """Its main process has the memory that the clients cause."""

    def written(self, server: Server, number: int) -> Path:
        """A profile that the server writes on a signal, and goes on."""
        path = server.folder / f"{server.pid}.{number}.json"
        os.kill(server.pid, PROFILE_SIGNAL)
        end = time.monotonic() + 30
        while not path.exists() or not path.read_bytes().endswith(b"]}\n"):
            self.assertLess(time.monotonic(), end, server.said())
            time.sleep(0.02)
        return path

    def test_growth(self) -> None:
        with self.kind(NEARMALLOC_PROFILE="on", NEARMALLOC_PROFILE_FORMAT="json",
                       NEARMALLOC_PROFILE_SIGNAL=str(PROFILE_SIGNAL),
                       NEARMALLOC_PROFILE_INTERVAL="8192",
                       NEARMALLOC_PROFILE_FILE="FOLDER/%p.%n.json") as server:
            before = self.written(server, 1)
            server.load()
            page = server.folder / "diff.html"
            text = tool("profile", "diff", before, self.written(server, 2), "--out", page)
            self.assertEqual(server.stop(), 0, server.said())
            self.assertIn("freed meanwhile by other threads", page.read_text())
        growth = re.match(r"live: .* before, .* after: \+([\d.]+) MiB\n", text)
        assert growth is not None, text
        self.assertGreater(float(growth[1]), 0.75 * HELD / (1 << 20), text)
        self.assertLess(float(growth[1]), 2 * HELD / (1 << 20), text)
        count()


class Redis(Grows, PreloadTest):
    kind = servers.Redis


class PostgreSQL(Inspected, PreloadTest):
    """It handles SIGUSR2 itself."""

    kind = servers.PostgreSQL
    explain = "exit"

    def test_the_page(self) -> None:
        """That of each connection's process. As root, `./near profile` cannot give one: the server
        has given up root, and may not write to root's folder."""
        with self.kind(NEARMALLOC_PROFILE="on", NEARMALLOC_PROFILE_INTERVAL="8192",
                       NEARMALLOC_PROFILE_FILE="kept:FOLDER/%p") as server:
            server.load()
            for pid in server.holding():
                page = server.folder / "page.html"
                tool("profile", "show", server.folder / str(pid), "--out", page)
                self.assertIn("tuplestore_putvalues", page.read_text())
                self.assert_page(server, pid)
            self.assertEqual(server.stop(), 0, server.said())


class Python(Grows, PreloadTest):
    kind = servers.Python

    def test_leaks(self) -> None:
        report = self.leaks()
        self.assertIn("ffi_call", report)
        self.assertLess(abs(self.lost - LOST), 0.3 * LOST, report)

    def test_its_own_metrics(self) -> None:
        with servers.Python() as server:
            server.load()
            server.get("/metrics")
            metrics = families((server.folder / "metrics").read_text())
            self.assertEqual(server.stop(), 0, server.said())
        values = {family.name: [sample.value for sample in family.samples] for family in metrics}
        self.assertGreater(sum(values["nearmalloc_span_bytes"]), HELD)
        self.assertGreater(sum(values["nearmalloc_recorded_events"]), 0)
        count()


class Node(Grows, PreloadTest):
    kind = servers.Node


class Static(Grows, PreloadTest):
    kind = servers.Static

    def test_leaks(self) -> None:
        report = self.leaks()
        self.assertIn("    plant_lost  ", report)
        self.assertNotIn("plant_held", report)
        self.assertLess(abs(self.lost - LOST), 0.3 * LOST, report)

    def assert_untouched(self, _: dict[str, Any], ours: dict[str, Any]) -> None:
        """The allocator is in the program, so there is none without it."""
        self.assertEqual(int(ours["handlers"], 16), 1 << (signal.SIGTERM - 1))
        self.assertEqual((ours["timers"], ours["threads"], ours["children"]), ("", 1, 0))
        self.assertEqual([name for name in ours["files"] if name.startswith("/")],
                         [name for name in ours["files"] if "errors" in name or "null" in name])


class Left(PreloadTest):
    """What the other tests rely on: none of their servers runs on."""

    def check(self, server: Server) -> None:
        """The command that started it is killed, and its other processes are not."""
        with server:
            pids = server.pids()
            server.process.kill()
            server.process.wait()
        self.assertEqual([pid for pid in pids if Path(f"/proc/{pid}").exists()], [])
        count()

    def test_by_a_tool_that_is_killed(self) -> None:
        for command in (LEAKS, PAGE):
            self.check(servers.Static(tool=command))

    def test_by_a_main_process_that_is_killed(self) -> None:
        self.check(servers.PostgreSQL())


class Environment(PreloadTest):
    def test_children_get_the_environment_that_the_program_got(self) -> None:
        command = [program("dash"), "-c", "env -0 | sort -z"]
        plain, ours = (run(command, preload=preload, summary=False) for preload in (False, True))
        self.assert_good(ours)
        added = {each for each in ours.out.split(b"\0") if each not in plain.out.split(b"\0")}
        given = environment(True, summary=False)
        self.assertEqual(added, {f"{name}={given[name]}".encode()
                                 for name in ("LD_PRELOAD", "NEARMALLOC_STATS")})
        count()


if __name__ == "__main__":
    main()
