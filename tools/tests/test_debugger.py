"""What the commands of GDB and LLDB, and `./near core`, say of a process that stopped or died."""

import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from modules import run_command

LIBRARY = os.environ["NEAR_LIBRARY"]
COMMANDS = Path(__file__).parents[1] / "nearmalloc_tools" / "debugger"
SOURCE = """
#include <stdlib.h>
#include <string.h>
char *volatile kept, *volatile freed, *volatile large;
void stop_here(void) { if (getenv("DIE")) abort(); }
int main(void) {
  char *volatile between = malloc(700);
  kept = memset(malloc(700), 1, 700);
  freed = malloc(700);
  free(freed);
  large = malloc(300000);
  stop_here();
  return between == 0;
}
"""
# A thread's blocks are freed by another one and come back, a large block comes, grows, goes and
# comes from the memory that it left, and the thread ends.
SLOW_PATHS = """
#include <pthread.h>
#include <stdlib.h>
static char *volatile blocks[2000];
static void *allocate(void *again) {
  for (int i = 0; i < 2000; i++) blocks[i] = malloc(700);
  return again;
}
static void *release(void *none) {
  free(malloc(1));  // takes a heap
  for (int i = 0; i < 2000; i++) free(blocks[i]);
  return none;
}
static void run(void *(*function)(void *)) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, NULL);
  pthread_join(thread, NULL);
}
int main(void) {
  allocate(NULL);
  run(release);
  allocate(NULL);
  for (int i = 0; i < 2; i++) {
    blocks[0] = malloc(20 << 20);
    blocks[0] = realloc(blocks[0], 24 << 20);
    free(blocks[0]);
  }
  return 0;
}
"""
# Says of each thread of GDB whether it is the main one, which takes SIGCHLD, or blocks it.
TASKS = """
import os, re
for task in os.listdir("/proc/self/task"):
    status = open(f"/proc/self/task/{task}/status").read()
    mask = int(re.search(r"SigBlk:\\s*(\\w+)", status)[1], 16)
    blocks = mask >> 16 & 1
    print("main" if int(task) == os.getpid() and not blocks else "blocks" if blocks else "takes")
"""
DEBUGGERS = {
    "gdb": (
        ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off"],
        "-ex",
        f"source {COMMANDS}/near_gdb.py",
    ),
    "lldb": (
        ["lldb-19", "--batch", "--no-lldbinit", "-o", "settings set target.disable-aslr false"],
        "-o",
        f"command script import {COMMANDS}/near_lldb.py",
    ),
}
START = {
    "gdb": ["set environment LD_PRELOAD {}", "break stop_here", "run"],
    "lldb": [
        "settings set target.env-vars LD_PRELOAD={}",
        "breakpoint set --name stop_here",
        "process launch",
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("debugger")
    (folder / "a.c").write_text(SOURCE, encoding="ascii")
    command = ["cc", "-g", "-O0", "-fno-builtin", "a.c", "-o", "a"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def run(debugger: str, folder: Path, commands: list[str], files: list[str]) -> str:
    """What a debugger says to its own commands and ours, and to the program beside."""
    words, option, load = DEBUGGERS[debugger]
    if not shutil.which(words[0]):
        pytest.skip(f"not installed: {words[0]}")
    given = [word for each in [load, *commands] for word in (option, each)]
    result = subprocess.run(
        [*words, *given, *files],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return result.stdout + result.stderr


def live(debugger: str, folder: Path, *commands: str, under: str = LIBRARY) -> str:
    """On a process that has stopped in stop_here()."""
    start = [each.format(under) for each in START[debugger]]
    return run(debugger, folder, [*start, *commands], ["./a"])


ASKED = (
    *("near block kept + 5", "near block freed", "near block large", "near block &kept"),
    *("near span kept", "near heaps", "near events"),
)


@pytest.fixture(scope="module")
def said(folder) -> str:
    return live("gdb", folder, *ASKED, "generate-core-file core")


def check(said: str) -> None:
    assert re.search(r"0x\w+ is 5 bytes into a live block of \d+ bytes at 0x\w+", said), said
    assert re.search(r"0x\w+ is the start of a free block of \d+ bytes", said)
    assert "is the start of a live large block" in said and "300000 bytes asked for" in said
    assert re.search(r"300000 bytes asked for\nbefore: \w.*\nafter: \w", said), said
    assert "is in no span" in said
    assert re.search(r"\n\d+ blocks of \d+ bytes: \d+ live, \d+ free", said)
    assert re.search(r"heap 0 at 0x\w+: node 0, used by thread \d+, ", said)
    assert re.search(r"\n\d+\.\d s before the newest: node 0 grew by \d+ bytes\n", said), said
    assert re.search(
        r"\nsince the start: 0 spill, [1-9]\d* growth, \d+ purge, 0 bind_refused, 0", said
    )
    live = re.search(r"blocks of \d+ bytes: (\d+) live", said)
    assert live and 2 <= int(live[1]) <= 10, "two blocks of 700, and those of the C library"


@pytest.mark.parametrize("debugger", DEBUGGERS)
def test_a_debugger_knows_blocks_of_a_process(debugger, folder):
    printed = live(debugger, folder, *ASKED, "help near span")
    check(printed)
    size = int(re.search(r"into a live block of (\d+)", printed)[1])
    assert 700 <= size < 900
    assert re.search(r"before: a (live|free) block of \d+ bytes at 0x\w+", printed)
    assert "near span ADDR: the span that has the address." in printed
    refusals = (
        ("heaps 1", "takes no argument"),
        ("block", "it needs an address"),
        ("block no_such_name", "No symbol" if debugger == "gdb" else "undeclared identifier"),
    )
    for each, reason in refusals:
        assert reason in live(debugger, folder, f"near {each}")


@pytest.mark.parametrize("debugger", DEBUGGERS)
def test_a_debugger_says_that_there_is_no_nearmalloc(debugger, folder):
    assert "does not run on nearmalloc" in live(debugger, folder, "near heaps", under="")


def test_lldb_says_that_there_is_no_process(folder):
    assert "there is no process" in run("lldb", folder, ["near heaps"], ["./a"])


def test_gdb_stops_at_a_probe_and_knows_its_arguments(folder):
    """The block of 300,000 bytes is the first that needs memory, in steps of 2 MiB."""
    start = [START["gdb"][0].format(LIBRARY), "set breakpoint pending on"]
    stop = ["break -probe-stap nearmalloc:growth", "run"]
    asked = ["print $_probe_arg0", "print $_probe_arg2"]
    printed = run("gdb", folder, [*start, *stop, *asked], ["./a"])
    node, size = re.findall(r"^\$\d+ = (\d+)$", printed, re.MULTILINE)
    assert node == "0" and int(size) > 0 and int(size) % (2 << 20) == 0, printed


def test_gdb_stops_at_slow_paths(folder):
    (folder / "slow.c").write_text(SLOW_PATHS, encoding="ascii")
    command = ["cc", "-g", "-O0", "-fno-builtin", "-pthread", "slow.c", "-o", "slow"]
    subprocess.run(command, cwd=folder, check=True)
    names = ("slices_taken", "slices_given", "heap_taken", "heap_parked", "remote_taken")
    commands = "".join(
        f"break -probe-stap nearmalloc:{name}\ncommands\nsilent\n"
        f'printf "{name} %lu %lu %lu\\n", $_probe_arg0, $_probe_arg1, $_probe_arg2\n'
        "continue\nend\n"
        for name in names
    )
    start = START["gdb"][0].format(LIBRARY)
    script = f"{start}\nset breakpoint pending on\n{commands}run\n"
    (folder / "slow.gdb").write_text(script, encoding="ascii")
    printed = run("gdb", folder, ["source slow.gdb"], ["./slow"])
    hits: dict[str, list[tuple[int, ...]]] = {name: [] for name in names}
    for name, *numbers in re.findall(r"^(\w+) (\d+) (\d+) (\d+)$", printed, re.MULTILINE):
        hits[name].append(tuple(map(int, numbers)))
    large = [each for each in hits["slices_taken"] if each[1] == 20 << 4]
    node, _, start = large[0]
    assert large == [large[0]] * 2, printed
    assert hits["slices_taken"].count((node, 4 << 4, start + (20 << 20))) == 2, printed
    assert hits["slices_given"].count((node, 24 << 4, start)) == 2, printed
    (first, *_), (second, *_) = hits["heap_taken"]
    assert [heap for heap, *_ in hits["heap_parked"]] == [second], printed
    back = [blocks for heap, blocks, size in hits["remote_taken"] if heap == first and size >= 700]
    assert sum(back) > 1000, printed


def test_gdb_takes_the_signals_of_its_children_in_one_thread(folder):
    """GDB hangs now and then if another thread than its main one takes SIGCHLD."""
    (folder / "tasks.py").write_text(TASKS, encoding="ascii")
    printed = run("gdb", folder, ["source tasks.py"], [])
    assert printed.split().count("main") == 1, printed
    assert set(printed.split()) <= {"main", "blocks"}, printed


def near_core(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command("core", *words, cwd=folder)


def test_a_core_file_says_the_same(said, folder):
    assert (folder / "core").exists(), said
    kept, freed, large = (
        re.search(rf"(0x\w+) is {words}", said)[1]
        for words in ("5 bytes into", "the start of a free", "the start of a live large")
    )
    words = ["--block", kept, "--block", freed, "--block", large, "--block", "0x1234"]
    result = near_core(folder, "core", *words, "--span", kept, "--heaps", "--events")
    assert result.returncode == 0, result.stderr
    check(result.stdout)
    for line in result.stdout.splitlines():
        assert line in said or line.startswith("0x1234 is in no span"), line
    census = near_core(folder, "core")
    assert census.returncode == 0, census.stderr
    pid = re.search(r"^a \((\d+)\): ", census.stdout)
    assert pid and "Memory by node" in census.stdout
    assert f"used by thread {pid[1]}, " in result.stdout
    assert re.search(rf"\n +0 +0 +used +{pid[1]} +\d", census.stdout), census.stdout
    assert re.search(r"seconds before the newest +event.*\n +0\.0 +\w+ +0 ", census.stdout)


@pytest.mark.parametrize("debugger", DEBUGGERS)
def test_a_debugger_reads_the_core_file(debugger, said, folder):
    files = ["./a", "core"] if debugger == "gdb" else ["./a", "--core", "core"]
    printed = run(debugger, folder, ["near block kept + 5", "near heaps"], files)
    assert re.search(r"0x\w+ is 5 bytes into .*", said)[0] in printed
    assert re.search(r"heap 0 at 0x\w+: .*", said)[0] in printed


def test_the_kernels_core_file_can_be_read(folder, tmp_path):
    """The kernel leaves out what files have; skipped where it sends core files elsewhere."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"not here: core files go to {pattern}")
    subprocess.run(
        [folder / "a"],
        cwd=tmp_path,
        env=os.environ | {"LD_PRELOAD": LIBRARY, "DIE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)),
        check=False,
    )
    found = list(tmp_path.iterdir())
    if not found:
        pytest.skip("not here: the kernel wrote no core file")
    result = near_core(folder, str(found[0]), "--heaps")
    assert re.search(r"heap 0 at 0x\w+: node 0, used", result.stdout), result.stderr


def test_other_files_are_refused(folder):
    for name, why in (
        ("a", "is no core file"),
        ("a.c", "is no core file"),
        ("none", "No such file"),
    ):
        result = near_core(folder, name)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("nearmalloc: ") and why in result.stderr
