#!/usr/bin/env python3
"""What the sampling profiler says about programs: planted sites are found, with the right sums, in
every format, and tools read them."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pprof import Pprof, top
from preload import LIBRARIES, PROGRAMS, Result, count, environment, main, program, run
from profiled import INTERVAL, ProfiledTest

# Allocates at each line of its input, and says when it did.
GROWS = """
import sys
kept = []
for line in sys.stdin:
    kept += [bytes(2000) for _ in range(1000)]
    print("grown", flush=True)
"""
STATIC = """
#include <stdlib.h>
#include <string.h>
static void *kept[3000];
__attribute__((noinline)) void *plant(int size) { return memset(malloc(size), 1, size); }
int main(void) {
  for (int i = 0; i < 3000; i++) kept[i] = plant(1000);
  return 0;
}
"""


class Profile(ProfiledTest):
    def profile(self, form: str, command: list[str | Path] | None = None) -> bytes:
        result = run(command or [PROGRAMS / "profiled"], extra=self.options(form))
        self.assert_good(result)
        self.assert_served(result)
        self.planted = {name: int(size) for name, size in
                        re.findall(r"(plant_\w+) (\d+)", result.out.decode())}
        count()
        return (self.folder / "profile").read_bytes()

    def near(self, found: float, truth: float, part: float, what: str) -> None:
        self.assertLess(abs(found - truth), part * truth, f"{what}: {found} is not {truth}")
        count()

    def test_json(self) -> None:
        found = json.loads(self.profile("json"))
        self.assertEqual(found["mean"], INTERVAL)
        self.assertEqual(found["dropped_stacks"], 0)
        self.assertEqual(found["dropped_blocks"], 0)
        self.assertEqual(found["dropped_modules"], 0)
        self.assertLessEqual(found["own_bytes"], 1 << 20)
        allocated = sum(site["allocated"]["bytes"] for site in found["sites"])
        deviation = sum(site["variance"] for site in found["sites"]) ** 0.5
        truth = sum(self.planted.values())
        # The C++ runtime and the C library allocate some 100 KB themselves.
        self.assertLess(abs(allocated - 90_000 - truth), 5 * deviation + 60_000)
        freed = sum(site["freed"]["bytes"] for site in found["sites"])
        live = sum(site["live"]["bytes"] for site in found["sites"])
        self.assertEqual(allocated, freed + live)
        remote = sum(site["remote"]["bytes"] for site in found["sites"])
        self.near(remote, self.planted["plant_remote"], 0.25, "remote")
        self.near(live, self.planted["plant_leak"], 0.25, "live")
        peak = sum(site["peak"]["bytes"] for site in found["sites"])
        self.near(peak, 3_000_000 + 33000 * 150 + 2_000_000, 0.25, "peak")
        waste = sum(site["waste"] for site in found["sites"])
        self.assertGreater(waste, 0.9 * 150 * (65536 - 33000))
        for site in found["sites"]:
            self.assertGreater(len(site["frames"]), 1, site)
            for frame in site["frames"]:
                self.assertTrue(any(module["start"] <= frame < module["end"]
                                    for module in found["modules"]), hex(frame))
            blocks = site["freed"]["blocks"]
            self.assertLess(abs(sum(site["by_lifetime"]) - blocks), 0.01 + blocks / 1000)
            self.assertEqual(site["by_lifetime"][-1], 0, "nothing lives 100 s")
            self.assertEqual(sum(site["freed_on_node"]), site["freed"]["bytes"])
            self.assertLessEqual(site["remote_lifetimes"], site["lifetimes"])
            self.assertEqual(site["remote_lifetimes"] > 0, site["remote"]["blocks"] > 0)
            self.assertGreaterEqual(site["moved_distance"], 11 * site["moved"]["bytes"])
        for module in found["modules"]:
            if "/libc.so" in module["file"]:
                self.assertRegex(module["build_id"], "^[0-9a-f]{40}$")

    def collapsed(self, form: str) -> dict[str, int]:
        """The bytes of each planted function, and of all others."""
        sums = dict.fromkeys(["plant_leak", "plant_waste", "plant_remote", "plant_peak",
                              "plant_churn", ""], 0)
        for line in self.profile(form).decode().splitlines():
            stack, number = line.rsplit(" ", 1)
            self.assertNotIn(" ", stack)
            frames = stack.split(";")
            planted = [frame for frame in frames if frame in sums]
            sums[planted[0] if planted else ""] += int(number)
            if planted:
                self.assertIn("main", " ".join(frames[:4]), "the outermost frame is first")
        return sums

    def test_collapsed(self) -> None:
        sums = self.collapsed("collapsed")
        for name, bytes_planted in self.planted.items():
            self.near(sums[name], bytes_planted, 0.3, name)

    def test_collapsed_live(self) -> None:
        sums = self.collapsed("collapsed_live")
        self.near(sums["plant_leak"], self.planted["plant_leak"], 0.25, "the leak")
        self.assertEqual([sums[name] for name in ("plant_waste", "plant_churn", "plant_peak")],
                         [0, 0, 0])

    def test_pprof(self) -> None:
        found = Pprof(self.profile("pprof"))
        self.assertEqual(found.strings[0], "")
        self.assertEqual(found.period, INTERVAL)
        self.near(found.sum_of("alloc_space"), sum(self.planted.values()), 0.2, "allocated")
        self.near(found.sum_of("inuse_space"), self.planted["plant_leak"], 0.25, "live")
        self.near(found.sum_of("remote_space"), self.planted["plant_remote"], 0.25, "remote")
        ids = [location[1] for location in found.locations]
        self.assertEqual(len(ids), len(set(ids)), "a location twice")
        for stack, values in found.samples:
            self.assertEqual(len(values), len(found.types))
            self.assertLessEqual(set(stack), set(ids))
        for location in found.locations:
            mapping = found.mappings[location[2] - 1]
            self.assertEqual(mapping[1], location[2])
            self.assertTrue(mapping[2] <= location[3] < mapping[3])
        for mapping in found.mappings:
            self.assertLess(mapping[5], len(found.strings))

    def test_pprof_reads_it(self) -> None:
        self.profile("pprof")
        for index, site in (("inuse_space", "plant_leak"), ("remote_space", "plant_remote"),
                            ("waste_space", "plant_waste"), ("peak_space", "plant_leak")):
            said = top(self.folder / "profile", index)
            self.assertIn(f"Type: {index}", said)
            self.assertIn(site, said)
            count()

    def test_jeprof(self) -> None:
        text = self.profile("jeprof").decode()
        header = re.match(r"heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heapprofile\n", text)
        assert header is not None, text[:200]
        lines = re.findall(r"^(\d+): (\d+) \[(\d+): (\d+)\] @((?: 0x[0-9a-f]+)*)$", text,
                           re.MULTILINE)
        self.near(int(header[2]), sum(int(line[1]) for line in lines), 0.001, "the header")
        self.near(int(header[2]), self.planted["plant_leak"], 0.25, "live")
        self.near(int(header[4]), sum(self.planted.values()), 0.2, "allocated")
        libraries = text.split("MAPPED_LIBRARIES:\n")[1]
        self.assertRegex(libraries, r"(?m)^[0-9a-f]+-[0-9a-f]+ r-xp [0-9a-f]+ 00:00 0 /\S*libc")
        result = run([program("jeprof"), "--text", "--show_bytes", PROGRAMS / "profiled",
                      self.folder / "profile"], preload=False)
        self.assert_good(result)
        live = re.search(rb"(?m)^ *(\d+) +[\d.]+% .* plant_leak(?: \(inline\))?$", result.out)
        self.assertIsNotNone(live, str(result))
        self.near(int(live[1]), self.planted["plant_leak"], 0.25, "live, by jeprof")

    def test_frame_pointers(self) -> None:
        """The option is obeyed, and programs without frame pointers survive it."""
        script = "[str(i) for i in range(99999)]"
        for command in ([PROGRAMS / "profiled"], [sys.executable, "-c", script]):
            extra = self.options("collapsed") | {"NEARMALLOC_PROFILE_STACKS": "frames"}
            self.assert_good(run(command, extra=extra))
            self.assertGreater((self.folder / "profile").stat().st_size, 100)
            count()

    def test_a_static_program(self) -> None:
        """Its stacks reach the start if the linker wrote the index of unwind tables."""
        source, binary = self.folder / "static.c", self.folder / "static"
        source.write_text(STATIC, encoding="ascii")
        compiler = [program("cc"), "-O1", "-fno-builtin", "-fomit-frame-pointer", "-static"]
        subprocess.run([*compiler, "-Wl,--eh-frame-hdr", source, LIBRARIES / "libnearmalloc.a",
                        "-o", binary], check=True)
        self.assert_good(run([binary], extra=self.options("json"), preload=False))
        sites = json.loads((self.folder / "profile").read_text())["sites"]
        live = max(sites, key=lambda site: site["live"]["bytes"])
        self.near(live["live"]["bytes"], 3_000_000, 0.25, "live")
        self.assertGreaterEqual(len(live["frames"]), 5, "plant, main, and the start's functions")

    def test_files_of_children(self) -> None:
        """A child of fork has a file of its own, or none."""
        for name, files in (("of.%p", 2), ("one", 1)):
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": str(folder / name)}
            self.assert_good(run([PROGRAMS / "profiled", "fork"], extra=extra))
            written = list(folder.iterdir())
            self.assertEqual(len(written), files)
            for path in written:
                found = json.loads(path.read_text())
                live = sum(site["live"]["bytes"] for site in found["sites"])
                self.near(live, 6_000_000 if live > 4_500_000 else 3_000_000, 0.25, "live")

    def test_a_file_that_another_process_takes(self) -> None:
        """The other one cannot write to it, and would leave it empty if it were the same file."""
        script = ("import resource, subprocess, sys\n"
                  "kept = [bytes(2000) for _ in range(500)]\n"
                  "limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
                  "subprocess.run([sys.executable, '-c', '1'], preexec_fn=limit)\n"
                  "kept += [bytes(2000) for _ in range(3000)]\n")
        extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": f"kept:{self.folder}/one"}
        self.assert_good(run([sys.executable, "-c", script], extra=extra))
        count()

    def test_a_file_that_cannot_be_written(self) -> None:
        for path, words in (("/no/such/folder", b"cannot be opened"),
                            ("/dev/full", b"is not whole"),
                            ("kept:/no/such/folder", b"no profile is kept in '/no/such/folder'"),
                            ("kept:/dev/full", b"no profile is kept in '/dev/full'")):
            extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": path}
            result = run([PROGRAMS / "profiled"], extra=extra)
            self.assert_good(result)
            self.assertIn(words, result.err)
            count()

    def written_to(self, path: Path, before: Callable[[], None] | None = None) -> Result:
        extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": str(path)}
        result = run([PROGRAMS / "profiled"], extra=extra, before=before)
        self.assert_good(result)
        count()
        return result

    def test_a_file_is_for_its_user_alone(self) -> None:
        for kind in ("", "kept:"):
            path = self.folder / f"{kind}new"
            extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": f"{kind}{path}"}
            self.assert_good(run([PROGRAMS / "profiled"], extra=extra,
                                 before=lambda: os.umask(0) and None))
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
            count()

    def test_a_file_of_ones_own_is_replaced(self) -> None:
        path = self.folder / "own"
        path.write_text("x" * 1_000_000)
        self.written_to(path)
        json.loads(path.read_text())

    def test_a_profile_is_not_written_through_a_link(self) -> None:
        """In a folder that others can write to, the name may lead to any file."""
        target = self.folder / "target"
        target.write_text("precious")
        (self.folder / "soft").symlink_to(target)
        (self.folder / "hard").hardlink_to(target)
        (self.folder / "dangling").symlink_to(self.folder / "nothing")
        for name in ("soft", "hard", "dangling"):
            result = self.written_to(self.folder / name)
            self.assertIn(b"no profile is written", result.err)
            self.assertEqual(target.read_text(), "precious")
        self.assertFalse((self.folder / "nothing").exists())
        extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": f"kept:{self.folder}/soft"}
        result = run([PROGRAMS / "profiled"], extra=extra)
        self.assertIn(b"no profile is kept", result.err)
        self.assertEqual(target.read_text(), "precious")

    def test_a_file_of_another_user_stays(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can make a file of another user")
        for kind in ("", "kept:"):
            path = self.folder / f"{kind}others"
            path.write_text("precious")
            os.chown(path, 12345, 12345)
            extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": f"{kind}{path}"}
            result = run([PROGRAMS / "profiled"], extra=extra)
            self.assert_good(result)
            self.assertIn(b"no profile is", result.err)
            self.assertEqual(path.read_text(), "precious")
            count()

    def test_a_pipe_of_ones_own_is_written_to(self) -> None:
        path = self.folder / "pipe"
        os.mkfifo(path)
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
            self.written_to(path)
            out, _ = reader.communicate()
        json.loads(out)

    def test_a_program_that_writes_over_its_environment(self) -> None:
        script = '$0 = "title " x 2000; my @kept = map { "v" x 1000 } 1..3000;'
        result = run([program("perl"), "-e", script], extra=self.options("json"))
        self.assert_good(result)
        self.assertNotIn(b"no profile", result.err)
        found = json.loads((self.folder / "profile").read_text())
        self.assertGreater(sum(site["live"]["bytes"] for site in found["sites"]), 100_000)
        count()

    def test_a_name_that_is_too_long(self) -> None:
        extra = self.options("json") | {"NEARMALLOC_PROFILE_FILE": "x" * 512}
        result = run([PROGRAMS / "profiled"], extra=extra, cwd=self.folder)
        self.assert_good(result)
        self.assertIn(b"NEARMALLOC_PROFILE_FILE is ignored", result.err)
        (written,) = self.folder.iterdir()
        self.assertRegex(written.name, r"^nearmalloc\.[0-9]+\.profile$")
        count()

    def test_programs_work_as_without(self) -> None:
        script = "import json, threading; print(len(json.dumps([str(i) for i in range(50000)])))"
        for command in ([sys.executable, "-c", script],
                        [program("dash"), "-c", "x=1; (echo $x | cat); env | grep -c ="],
                        [program("perl"), "-e", 'my %h; $h{$_} = "v" x $_ for 1..2000; print 5;']):
            expected = run(command, extra=self.options("json"), preload=False)
            result = run(command, extra=self.options("json", "of.%p"))
            self.assert_good(result)
            if "env" not in str(command):
                self.assertEqual(result.out, expected.out)
            count()

    def start(self, script: str, **options: str) -> subprocess.Popen[str]:
        extra = self.options("json", "%p.%n") | {"NEARMALLOC_PROFILE_SIGNAL": "10"} | options
        return subprocess.Popen([sys.executable, "-c", script], env=environment(True, extra),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def wait_for(self, path: Path) -> dict:
        """The profile in a file that a process is about to write."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                return json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                time.sleep(0.02)
        raise AssertionError(f"{path} is not written")

    def test_a_signal_writes_each_moment(self) -> None:
        with self.start(GROWS) as process:
            live = []
            for number in (1, 2, 3):
                print(file=process.stdin, flush=True)
                self.assertEqual(process.stdout.readline(), "grown\n")
                if number < 3:
                    process.send_signal(signal.SIGUSR1)
                found = self.folder / f"{process.pid}.{number}"
                if number == 3:  # at exit
                    process.stdin.close()
                sites = self.wait_for(found)["sites"]
                live.append(sum(site["live"]["bytes"] for site in sites))
            self.assertEqual(process.wait(30), 0, process.stderr.read())
        self.near(live[1] - live[0], 2_000_000, 0.25, "growth between the signals")
        self.assertEqual(len(list(self.folder.iterdir())), 3)

    def test_signals_at_any_moment(self) -> None:
        """They often interrupt malloc, and the profiler where it has its lock."""
        script = ("import ctypes\nlibc = ctypes.CDLL(None)\n"
                  "libc.fopen.restype = ctypes.c_void_p\n"
                  "libc.near_profile_write.argtypes = [ctypes.c_void_p, ctypes.c_int]\n"
                  "stream = ctypes.c_void_p(libc.fopen(b'/dev/null', b'w'))\n"
                  "print('ready', flush=True)\n"
                  "for i in range(4000):\n"
                  "    kept = [bytes(600 + i) for i in range(20)]\n"
                  "    assert libc.near_profile_write(stream, 3) == 0\n")
        # Few sites and a short format, so that the program goes on between the signals.
        with self.start(script, NEARMALLOC_PROFILE_FORMAT="collapsed",
                        NEARMALLOC_PROFILE_INTERVAL="500000") as process:
            process.stdout.readline()
            sent = 0
            while process.poll() is None and sent < 5000:
                process.send_signal(signal.SIGUSR1)
                sent += 1
                time.sleep(0.002)
            process.stdin.close()
            try:
                self.assertEqual(process.wait(30), 0, process.stderr.read())
            finally:
                process.kill()
        written = list(self.folder.iterdir())
        self.assertGreater(len(written), 20, f"of {sent} signals")
        for path in written:
            self.assertRegex(path.read_text(), r"^([^ ]+ [0-9]+\n)+$", path)
        count(len(written))

    def test_interrupted_samples(self) -> None:
        """Handlers interrupt threads that take samples, and fork there: the child allocates."""
        for command in (["signals"], ["forks", "in_a_handler"],
                        ["forks", "in_a_handler_among_threads"]):
            extra = self.options("json") | {"NEARMALLOC_PROFILE_INTERVAL": "64"}
            result = run([PROGRAMS / command[0], *command[1:]], extra=extra)
            self.assert_good(result)
            self.assertEqual(result.complaints, b"", str(result))
            written = self.folder / "profile"
            found = json.loads(written.read_bytes())
            written.unlink()
            samples = sum(site["samples"] for site in found["sites"])
            self.assertGreater(samples, 10_000, command)
            count()

    def test_a_profile_that_is_being_written_at_exit(self) -> None:
        """A handler in another thread waits for a reader of the file, and none comes."""
        os.mkfifo(self.folder / "profile")
        script = ("import signal, threading, time\n"
                  "other = threading.Thread(target=time.sleep, args=(60,), daemon=True)\n"
                  "other.start()\n"
                  "signal.pthread_kill(other.ident, 10)\n"
                  "time.sleep(0.2)\n")
        with self.start(script, NEARMALLOC_PROFILE_FILE=str(self.folder / "profile")) as process:
            _, said = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("no profile is written at exit: one is still being written", said)
        count()

    def test_a_signal_without_a_profile(self) -> None:
        for options, words in (({"NEARMALLOC_PROFILE": "off"}, "the profiler was not started"),
                               ({"NEARMALLOC_PROFILE_SIGNAL": "9"}, "is ignored: the system"),
                               ({"NEARMALLOC_PROFILE_SIGNAL": "11"}, "signal 11 tells of a fault"),
                               ({"NEARMALLOC_PROFILE_FILE": "kept:x,y"}, "it needs unix:PATH"),
                               ({"NEARMALLOC_PROFILE_FILE": f"kept:{self.folder}/x"},
                                "is ignored: it needs a plain file")):
            script = "import os, signal; os.kill(os.getpid(), 10)"
            if "NEARMALLOC_PROFILE" not in options:
                script = "1"
            with self.start(script, **options) as process:
                _, said = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 0, said)
            self.assertIn(words, said)
            count()

    def test_nothing_unless_asked_for(self) -> None:
        self.assert_good(run([PROGRAMS / "profiled"], cwd=self.folder))
        self.assertEqual(list(self.folder.iterdir()), [])
        count()


if __name__ == "__main__":
    main()
