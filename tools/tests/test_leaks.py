"""`./near run --leaks` reports planted leaks and nothing else, and its status can be used in CI."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modules import run_command
from nearmalloc_tools.errors import Refused
from nearmalloc_tools.leaks import exit_frame, roots
from nearmalloc_tools.top.blocks import Blocks
from nearmalloc_tools.top.census import Reader
from nearmalloc_tools.top.process import Mapping, Process, find_layout

LIBRARY = os.environ["NEAR_LIBRARY"]

# Each function plants a block that the program keeps or loses in its own way.
C_SOURCE = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define PLANT(name, size) \\
  __attribute__((noinline)) void *name(void) { return memset(malloc(size), 0, size); }
PLANT(plant_direct, 1000)
PLANT(plant_indirect, 600)
PLANT(plant_large, 200000)
PLANT(plant_of_ended_thread, 800)
PLANT(keep_by_global, 700)
PLANT(keep_by_freed, 500)
PLANT(keep_by_stack, 900)
PLANT(keep_by_interior, 100000)
PLANT(keep_by_block, 300)
PLANT(keep_by_register, 400)
PLANT(keep_by_dangling, 1200)
PLANT(plant_behind_free, 450)
struct node { char beginning[40]; void *held; };
struct node *global, *dangling[2];
void *inside;
static pthread_barrier_t ready;
static void *wait_for_ever(void *ignored) {
  void *volatile kept = keep_by_stack();
  pthread_barrier_wait(&ready);
  for (;;) pause();
  return kept + (size_t)ignored;
}
static __attribute__((noinline)) void clear_stack(void) {
  volatile char used[4096];
  for (int i = 0; i < 4096; i++) used[i] = 0;
}
static void *turn_for_ever(void *ignored) {
  void *kept = keep_by_register();
  pthread_barrier_wait(&ready);
  clear_stack();
  for (;;) __asm__ volatile("" : : "r"(kept));
  return ignored;
}
static void *end(void *ignored) {
  void *volatile lost = plant_of_ended_thread();
  *(char *)lost = 1;
  return ignored;
}
static __attribute__((noinline)) void lose(void) {
  pthread_t thread;
  struct node *node = plant_direct();
  node->held = plant_indirect();
  *(volatile char *)plant_large() = 1;
  pthread_create(&thread, 0, end, 0);
  pthread_join(thread, 0);
  // The first one keeps their span.
  for (int i = 0; i < 2; i++) dangling[i] = keep_by_dangling();
  dangling[1]->held = plant_behind_free();
  free(dangling[1]);
}
int main(int count, char **words) {
  pthread_t thread;
  pthread_barrier_init(&ready, 0, 2);
  pthread_create(&thread, 0, wait_for_ever, 0);
  pthread_barrier_wait(&ready);
  pthread_create(&thread, 0, turn_for_ever, 0);
  pthread_barrier_wait(&ready);
  global = keep_by_global();
  global->held = keep_by_block();
  inside = (char *)keep_by_interior() + 50001;
  if (count > 1 && strcmp(words[1], "lose") == 0) lose();
  if (count > 1 && strcmp(words[1], "exit") == 0) _exit(0);
  if (count > 1 && strcmp(words[1], "kill") == 0) abort();
  if (count > 1 && strcmp(words[1], "fail") == 0) return 5;
  if (count > 1 && strcmp(words[1], "early") == 0) {
    void *volatile in_frame = keep_by_freed();
    exit(in_frame == 0);
  }
  return 0;
}
"""

CPP_SOURCE = """
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>
struct Node { std::shared_ptr<Node> next; std::string name = std::string(500, 'n'); };
__attribute__((noinline)) void plant_cycle() {
  auto one = std::make_shared<Node>(), other = std::make_shared<Node>();
  one->next = other;
  other->next = one;
}
struct Base { virtual ~Base() = default; };
struct Other { virtual ~Other() = default; char more[600] = {}; };
struct Both : Base, Other {};
__attribute__((noinline)) Other *keep_by_second_base() { return new Both; }
Other *kept;
std::map<int, std::vector<int>> destroyed_at_exit;
int main(int count, char **) {
  kept = keep_by_second_base();
  for (int i = 0; i < 100; i++) destroyed_at_exit[i].resize(200);
  if (count > 1) plant_cycle();
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("leaks")
    for name, source, compiler in (("c.c", C_SOURCE, "cc"), ("cpp.cc", CPP_SOURCE, "c++")):
        (folder / name).write_text(source, encoding="ascii")
        words = [compiler, "-g", "-O1", "-fno-builtin", "-pthread", name, "-o", name.split(".")[0]]
        subprocess.run(words, cwd=folder, check=True)
    return folder


def run(folder: Path, *words: str, interval: int = 1) -> subprocess.CompletedProcess[str]:
    return run_command("leaks", "--interval", str(interval), *words, cwd=folder)


def test_a_program_may_have_any_bytes_in_its_name(folder):
    program = os.fsdecode(os.fsencode(folder) + b"/pl\xe4nted")
    shutil.copy(folder / "c", program)
    result = run(folder, "--", program, "lose")
    assert result.returncode == 23, result.stderr
    assert "plant_direct" in result.stderr


def test_planted_leaks_are_found_in_c(folder):
    result = run(folder, "--", "./c", "lose")
    assert result.returncode == 23, result.stderr
    planted = ["direct", "indirect", "large", "of_ended_thread", "behind_free"]
    for name in (f"plant_{each}" for each in planted):
        assert f"    {name}  " in result.stderr, f"{name} is not in {result.stderr}"
    assert "keep_" not in result.stderr
    assert "5 of " in result.stderr and "unreachable, from 5 sites" in result.stderr
    blocks = result.stderr.split("  about ")
    for text in blocks[1:]:
        indirect = "only leaked blocks point to them" in text
        assert indirect == ("plant_indirect" in text), text
        assert ("c.c:" in text and "main" in text) or "plant_of_ended_thread" in text


def test_old_values_in_the_frames_of_exit_hide_nothing(folder):
    """Main's last pointer remains there, in a gap of a frame, with glibc 2.36 at least."""
    source = """
        #include <stdlib.h>
        #include <string.h>
        struct node { char beginning[40]; void *held; };
        void *global;
        __attribute__((noinline)) void *plant(void) { return memset(malloc(900), 0, 900); }
        int main(void) {
          global = plant();
          struct node *node = plant();
          node->held = plant();
          return 0;
        }
    """
    (folder / "stale.c").write_text(source, encoding="ascii")
    command = ["cc", "-g", "-O1", "-fno-builtin", "stale.c", "-o", "stale"]
    subprocess.run(command, cwd=folder, check=True)
    result = run(folder, "--", "./stale")
    assert result.returncode == 23, result.stderr
    assert "2 of " in result.stderr


class _Stack(Process):
    """A stack of words that ends at `end`; beyond it nothing can be read."""

    def __init__(self, end: int, words: dict[int, int]) -> None:
        self._end, self._stored = end, words

    def read(self, address: int, size: int) -> bytes:
        if address + size > self._end:
            raise Refused("not mapped")
        at = range(address, address + size, 8)
        return b"".join(self._stored.get(each, 0).to_bytes(8, "little") for each in at)

    def files(self) -> list[Mapping]:
        return [Mapping(0, 0, "/lib/libc.so.6")]


@pytest.mark.parametrize("above", [16, 3464, 4096, 5000 * 8, 20_000 * 8])
def test_the_frames_of_exit_are_found_wherever_the_stack_ends(above, monkeypatch):
    """Where it ends differs from run to run, by the addresses and the environment."""
    monkeypatch.setattr(exit_frame.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(exit_frame, "find_symbol", lambda *_: (0x1000, 32))
    end = 0x7FFF_0000_0000
    pointer = end - above
    returns = pointer + 8
    stack = _Stack(end, {returns: 0x1010})
    assert exit_frame.begin(stack, pointer) == (returns - 6 * 8, False)
    assert exit_frame.begin(_Stack(end, {}), pointer) == (pointer - 128, True)


def test_planted_leaks_are_found_in_cpp(folder):
    result = run(folder, "--", "./cpp", "lose")
    assert result.returncode == 23, result.stderr
    assert result.stderr.count("plant_cycle()") == 4, result.stderr
    assert "keep_" not in result.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [(["./c"], 0), (["./cpp"], 0), (["./c", "fail"], 5), (["./c", "early"], 0)],
)
def test_a_program_without_leaks_keeps_its_status(folder, words, status):
    result = run(folder, "--", *words)
    assert result.returncode == status, result.stderr
    assert "sampled blocks is leaked" in result.stderr


def test_what_was_not_looked_at_is_no_success(folder):
    result = run(folder, "--", "./c", "exit")
    assert result.returncode == 1
    assert "no process was looked at" in result.stderr
    result = run(folder, "--", "./c", "kill")
    assert result.returncode == 128 + signal.SIGABRT
    assert "no process was looked at" in result.stderr
    result = run(folder, "--", "/no/such/program")
    assert (result.returncode, result.stdout) == (1, "")
    assert "nearmalloc: /no/such/program: No such file or directory" in result.stderr


def test_a_static_program_is_looked_at_if_it_was_linked_to_nearmalloc(folder):
    for name, archive in (("without", ""), ("with", Path(LIBRARY).with_name("libnearmalloc.a"))):
        words = ["cc", "-g", "-O1", "-fno-builtin", "-static", "-pthread", "c.c", archive]
        subprocess.run([*filter(None, words), "-o", f"static-{name}"], cwd=folder, check=True)
        result = run(folder, "--", f"./static-{name}", "lose")
        if name == "with":
            assert result.returncode == 23, result.stderr
            assert "plant_direct" in result.stderr
        else:
            assert result.returncode == 1
            assert "is static and was linked without nearmalloc" in result.stderr


def test_functions_can_be_ignored(folder):
    result = run(folder, "--ignore", "plant_c", "--", "./cpp", "lose")
    assert result.returncode == 0, result.stderr
    assert "plant_cycle" not in result.stderr


def test_each_process_is_looked_at(folder):
    result = run(folder, "--", "sh", "-c", "./c lose; ./c; exit 3")
    assert result.returncode == 23
    assert result.stderr.count("nearmalloc: c (") == 2
    assert result.stderr.count("leaks about") == 1


def test_samples_estimate_the_bytes(folder):
    source = """
        #include <stdlib.h>
        #include <string.h>
        int main(void) { for (int i = 0; i < 20000; i++) memset(malloc(500), 0, 500); }
    """
    (folder / "many.c").write_text(source, encoding="ascii")
    command = ["cc", "-O0", "-fno-builtin", "many.c", "-o", "many"]
    subprocess.run(command, cwd=folder, check=True)
    result = run(folder, "--", "./many", interval=30000)
    assert result.returncode == 23
    said = float(result.stderr.split("leaks about ")[1].split(" MiB")[0])
    assert said == pytest.approx(20000 * 500 / 2**20, rel=0.3)


@pytest.mark.parametrize("profile", ["off", "on"])  # on: a tenth of the small ones is marked
def test_free_blocks_are_told_from_live_ones(profile):
    script = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
sizes = [300] * 400 + [3000] * 200 + [40000] * 40
blocks = [libc.malloc(size) for size in sizes]
line = " ".join(map(str, blocks)) + chr(10)
for block in blocks[::4]: libc.free(block)
def free_others():
    for block in blocks[2::4]: libc.free(block)
    os.write(1, line.encode())  # before their owner takes them back
    sys.stdin.read()
threading.Thread(target=free_others).start()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ
        | {"LD_PRELOAD": LIBRARY, "NEARMALLOC_PROFILE": profile}
        | {"NEARMALLOC_PROFILE_INTERVAL": "3000", "NEARMALLOC_PROFILE_FILE": "/dev/null"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout
            addresses = [int(word) for word in child.stdout.readline().split()]
            process = Process(child.pid)
            blocks = Blocks(Reader(process, find_layout(process)))
            free = blocks.free()
            numbers = blocks.numbers(addresses)
            kept, freed = numbers[1::2], numbers[::2]
            assert min(kept) >= 0 and not any(free[number] for number in kept)
            assert [*map(blocks.start_of, kept)] == addresses[1::2]
            assert blocks.numbers(address + 299 for address in addresses[1::2]) == kept
            # A few were allocated anew by Python meanwhile.
            known = [number for number in freed if number >= 0]
            assert sum(free[number] for number in known) > 0.9 * len(known) > 0
            large = blocks.at(addresses[-1], free)
            assert large and large.kind == "large" and large.asked == 40000
            # Such a block may begin behind the start of its slice.
            begins = addresses[-39::2]
            behind = [begin for begin in begins if begin % 65536 > 0]
            assert len(behind) > 5
            assert {blocks.number(each - 1) for each in behind} == {-1}
            assert [blocks.start_of(blocks.number(each + 39_999)) for each in behind] == behind
            assert all(blocks.span_of(each - 1) is not None for each in behind)
        finally:
            child.kill()


def test_roots_are_what_the_program_can_point_from():
    maps = roots.parse(
        "1000-2000 r-xp 00000000 fe:00 1 /bin/x\n"
        "2000-3000 rw-p 00001000 fe:00 1 /bin/x\n"
        "10000-11000 ---p 00000000 00:00 0 \n"
        "11000-20000 rw-p 00000000 00:00 0 \n"
        "30000-31000 ---p 00000000 00:00 0 \n"
        "31000-42000 rw-p 00000000 00:00 0 \n"
        "50000-60000 rw-p 00000000 00:00 0 \n"
        "70000-80000 rw-p 00000000 00:00 0 [stack]\n"
    )
    found = roots.find(maps, [(0x52000, 0x53000)], [0x15000, 0x7F000], 0x10000)
    assert found == [
        (0x2000, 0x3000),
        (0x15000, 0x20000),  # the stack of a thread, from its pointer on
        (0x40000, 0x42000),  # what lies behind the stack of a thread that has ended
        (0x50000, 0x52000),
        (0x53000, 0x60000),
        (0x7F000, 0x80000),
    ]
    assert roots.stack_limit("Max stack size  8388608  unlimited  bytes\n") == 8 << 20
    assert roots.stack_limit("Max stack size  unlimited  unlimited  bytes\n") == 2 << 20
