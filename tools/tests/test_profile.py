"""`./near profile` finds a planted leak, remote frees and waste, and its page works by itself."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from modules import run_command
from nearmalloc_tools.amounts import amount, duration
from nearmalloc_tools.leaks.report import Leak
from nearmalloc_tools.profile.diff import compare
from nearmalloc_tools.profile.diff import page as page_of_growth
from nearmalloc_tools.profile.diff import text as text_of_growth
from nearmalloc_tools.profile.leaked import Leaked, confidence
from nearmalloc_tools.profile.page import build, suggestions
from nearmalloc_tools.profile.profile import MEASURES, Profile, Site, named_frame, read, read_plain
from nearmalloc_tools.profile.running import prune
from nearmalloc_tools.profile.symbols import Frame, Module, Symbols, segments, without_false_name

LIBRARY = os.environ["NEAR_LIBRARY"]
SOURCE = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
static void *passed[5000];
__attribute__((noinline)) void *plant_leak(void) { return memset(malloc(1000), 1, 1000); }
__attribute__((noinline)) void *plant_remote(void) { return memset(malloc(800), 1, 800); }
__attribute__((noinline)) void *plant_waste(void) { return memset(malloc(33000), 1, 33000); }
static void *free_all(void *ignored) {
  for (int i = 0; i < 5000; i++) free(passed[i]);
  return ignored;
}
int main(int count, char **words) {
  pthread_t thread;
  for (int i = 0; i < 3000; i++) ((volatile char *)plant_leak())[0] = 2;
  for (int i = 0; i < 5000; i++) passed[i] = plant_remote();
  pthread_create(&thread, 0, free_all, 0);
  pthread_join(thread, 0);
  for (int i = 0; i < 300; i++) free(plant_waste());
  if (count > 1) printf("%d\\n", getpid()), fflush(stdout);
  while (count > 1) pause();
  return words[0] == 0 ? 0 : 3;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    (folder / "planted.c").write_text(SOURCE, encoding="ascii")
    command = ["cc", "-g", "-O1", "-fno-builtin", "-pthread", "planted.c", "-o", "planted"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def _near_profile(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command("profile", *words, cwd=folder)


@pytest.fixture(scope="module")
def profile(folder) -> Profile:
    variables = {
        "LD_PRELOAD": LIBRARY,
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": "10000",
        "NEARMALLOC_PROFILE_FORMAT": "json",
        "NEARMALLOC_PROFILE_FILE": str(folder / "planted.json"),
    }
    subprocess.run([folder / "planted"], env=os.environ | variables, check=False)
    return read(folder / "planted.json")


def _sum(profile: Profile, function: str, measure: str) -> int:
    return sum(site.sums[measure] for site in profile.sites if site.caller == function)


def test_planted_sites_are_found_by_their_names(profile):
    assert _sum(profile, "plant_leak", "live") == pytest.approx(3_000_000, rel=0.35)
    assert _sum(profile, "plant_remote", "remote") == pytest.approx(4_000_000, rel=0.35)
    assert _sum(profile, "plant_waste", "waste") == pytest.approx(300 * 32536, rel=0.35)
    assert _sum(profile, "plant_waste", "live") == 0
    for site in profile.sites:
        if site.caller.startswith("plant_"):
            assert site.stack[0].place.endswith((".c:8", ".c:9", ".c:10"))
            assert "main" in [frame.function for frame in site.stack]


def test_what_stands_out_is_said(profile):
    said = "\n".join(suggestions(profile))
    assert "33,000 bytes from plant_waste takes 65,536 bytes" in said
    assert "100 % of what plant_remote allocates is freed by other threads" in said
    assert "plant_leak" not in said


def test_the_page_says_where_and_by_which_threads_and_when_each_site_is_freed(profile):
    site = next(site for site in profile.sites if site.caller == "plant_remote")
    assert sum(size for _, size in site.freed_on_node) == site.freed
    node, freed = site.freed_on_node[0]
    rows = _part(build(profile, "planted", Leaked()), "remote")
    assert f"<td>node {node}: {amount(freed)}" in rows
    away = f"{amount(site.sums['moved'])} of it on another node than the block&#39;s"
    assert f"<li>Freed: {amount(site.freed)}; {away}</li>" in rows
    assert f"<li>on node {node}: {amount(freed)}" in rows
    assert re.search(r"<li>by (no heap|heap \d+): [\d.]+ MiB</li>", rows)
    life = r"<li>after [\d.]+ .?s on average, [\d.]+ .?s at most: \d+ % (below )?\d+ m?s"
    assert re.search(life, rows)
    leak = _part(build(profile, "planted", Leaked()), "live").split("plant_leak", 1)[1]
    assert "None of its blocks was freed." in leak.split("</details>")[0]


def test_blocks_that_are_freed_on_other_nodes_stand_out():
    sums = dict.fromkeys(MEASURES, 0) | {"allocated": 5000, "remote": 1000, "moved": 3000}
    far = Site(
        [Frame("far", "a.c:7")],
        20,
        sums,
        5,
        0,
        4000,
        0,
        0,
        2.0,
        [(-1, 1000), (3, 2000)],
        freed_by_others=1000,
        freed_on_node=[(0, 1000.0), (7, 3000.0)],
        longest_life=300.0,
        by_lifetime=[0, 0, 0, 1, 2, 0, 1],
        remote_blocks=2,
        remote_seconds=0.6,
        moved_distance=93_000,
    )
    summary = dict.fromkeys(("mean", "own_bytes", "slice_bytes", "pid", "seconds", "samples"), 1)
    summary |= {"dropped_stacks": 0, "dropped_blocks": 0}
    page = build(Profile(summary, [far]), "nodes", Leaked())
    far_away = "at a mean distance of 31 (the block&#39;s node is at 10)"
    away = f"another node than the block&#39;s, {far_away}"
    assert f"<li>75 % of what far allocates is freed on {away}.</li>" in page
    rows = _part(page, "moved")
    assert f"<li>Freed: 3.9 KiB; 2.9 KiB of it on {away}</li>" in rows
    assert "<li>by other threads, 300 ms later on average</li>" in rows
    assert "<th>mean distance</th><th>mean wait</th>" in rows
    assert "<td>31</td><td>300 ms</td><td>node 0: 1000 B, node 7 and higher: 2.9 KiB</td>" in rows
    others = _part(page, "remote")
    assert "<th>mean wait</th><th>mean distance</th>" in others
    assert "<td>300 ms</td><td>31</td><td>node 0: 1000 B, " in others
    for part in (rows, others):
        assert "10 is the node itself" in part and "from the allocation of the blocks" in part
    assert "<td>no heap: 1000 B, heap 3: 2.0 KiB, other heaps: 1000 B</td>" in rows
    assert "25 % 100 ms to 1 s, 50 % 1 s to 10 s, 25 % above 100 s" in rows
    assert "2 s on average, 5 min at most" in rows
    assert "<td>2.9 KiB</td>" in rows and "<td>3.9 KiB</td>" in rows, "of what was freed"
    nobody = Profile(summary, [replace(far, sums=sums | {"moved": 1000})])
    assert "another node" not in " ".join(suggestions(nobody))


def test_what_stands_out_has_the_wait_of_the_blocks_that_other_threads_free():
    sums = dict.fromkeys(MEASURES, 0) | {"allocated": 1000, "remote": 900}
    site = Site([Frame("handed", "")], 20, sums, 10, 0, 1000, 0, 0, 5.0, [])
    handed = replace(site, remote_blocks=9, remote_seconds=0.018)
    (said,) = suggestions(Profile({}, [handed]))
    assert said.endswith("is freed by other threads, 2 ms later on average.")
    (said,) = suggestions(Profile({}, [site]))
    assert said.endswith("is freed by other threads."), "an earlier version did not say when"


def test_a_profile_of_an_earlier_version_does_not_know_waits_and_distances(profile, folder):
    summary = json.loads((folder / "planted.json").read_text(encoding="utf-8"))
    for each in summary["sites"]:
        del each["remote_lifetimes"], each["moved_distance"]
    (folder / "earlier.json").write_text(json.dumps(summary), encoding="utf-8")
    earlier = read(folder / "earlier.json")
    rows = _part(build(earlier, "earlier", Leaked()), "remote")
    assert "<td>not known</td><td>none freed</td><td>node" in rows
    site = next(site for site in profile.sites if site.caller == "plant_remote")
    assert site.remote_life is not None and 0 < site.remote_life <= site.longest_life
    assert f"<td>{duration(site.remote_life)}</td>" in _part(build(profile, "", Leaked()), "remote")


def test_few_samples_support_no_sentence():
    site = Site(
        [],
        9,
        dict.fromkeys(MEASURES, 100),
        1,
        0,
        100,
        0,
        0,
        0,
        [],
    )
    assert suggestions(Profile({}, [site])) == []


def test_the_command_writes_a_page_and_keeps_the_status(folder):
    result = _near_profile(folder, "--interval", "10000", "--", "./planted")
    assert result.returncode == 3, result.stderr
    assert "nearmalloc: the page is near-profile.html" in result.stderr
    text = (folder / "near-profile.html").read_text(encoding="utf-8")
    assert "plant_leak" in text
    assert "http" not in text.replace("http-equiv", "")


def _part(page: str, name: str) -> str:
    """A section of a page."""
    return page.split(f'id="{name}"')[1].split("<h2")[0]


def test_leaks_are_on_the_page_with_confidence(folder):
    _near_profile(folder, "--interval", "10000", "--", "./planted")
    page = _page_of(folder)
    leaks = _part(page, "leaks")
    assert "plant_leak" in leaks and "plant_remote" not in leaks and "plant_waste" not in leaks
    assert "<td>nothing points to them</td><td>high</td>" in leaks
    assert "the program can reach none of its" in page.split("What stands out")[1]
    assert re.search(r"<li>[\d.]+ s ago: node \d+ grew by \d+ bytes</li>", _part(page, "events"))


def test_the_page_says_why_leaks_are_not_known(folder):
    _near_profile(folder, "--interval", "10000", "--no-leaks", "--", "./planted")
    assert "Not known: nobody looked for them: --no-leaks." in _part(_page_of(folder), "leaks")
    _near_profile(folder, "--interval", "1000", "--", sys.executable, "-c", _STAYS, "")
    assert "it ended by a signal or by _exit" in _part(_page_of(folder), "leaks")


def test_confidence_needs_samples_and_that_all_are_lost():
    site = Site([], 9, {}, 1, 0, 100, 0, 0, 0, [])
    for live, lost, expected in (
        (10, 10, "high"),
        (11, 10, "medium"),
        (3, 3, "medium"),
        (2, 2, "low"),
    ):
        assert confidence(Leak(site, live=live, direct=lost)) == expected


def test_the_command_says_why_there_is_no_page(folder):
    result = _near_profile(folder, "--", "/no/such/program")
    assert (result.returncode, result.stdout) == (1, "")
    assert "nearmalloc: /no/such/program: No such file or directory" in result.stderr
    result = _near_profile(folder, "--interval", "1000000000", "--", "true")
    assert result.returncode == 1
    assert "no process of the program took a sample" in result.stderr


def test_a_static_program_has_a_page_if_it_was_linked_to_nearmalloc(folder):
    for name, archive in (("without", ""), ("with", Path(LIBRARY).with_name("libnearmalloc.a"))):
        words = ["cc", "-g", "-O1", "-fno-builtin", "-static", "-pthread", "planted.c", archive]
        subprocess.run([*filter(None, words), "-o", f"static-{name}"], cwd=folder, check=True)
        result = _near_profile(folder, "--interval", "10000", "--", f"./static-{name}")
        if name == "with":
            assert "plant_leak" in result.stderr
        else:
            assert result.returncode == 1
            assert "is static and was linked without nearmalloc" in result.stderr


def test_the_terminal_has_a_summary(folder):
    result = _near_profile(folder, "--interval", "10000", "--", "./planted")
    first, *sites, lost, last = result.stderr.splitlines()
    assert re.fullmatch(
        r"nearmalloc: process \d+: [\d.]+ MiB live at the end, [\d.]+ MiB at the peak, "
        r"[\d.]+ MiB allocated at \d+ sites",
        first,
    )
    assert re.fullmatch(r"nearmalloc: +[23]\.\d MiB live: plant_leak  .*planted\.c:8", sites[0])
    assert 1 <= len(sites) <= 3
    assert re.fullmatch(r"nearmalloc: +[23]\.\d MiB lost: plant_leak  .*planted\.c:8", lost)
    assert last == "nearmalloc: the page is near-profile.html"


_STAYS = """
import os, sys, time
kept = [bytes(3000) for _ in range(2000)]
end = os.fork() if len(sys.argv) > 2 else 1
if end == 0:
    kept += [bytes(3001) for _ in range(4000)]
print(os.getpid(), flush=True)
while sys.argv[1] == "wait":
    time.sleep(1)
os._exit(0)
"""


def _page_of(folder: Path) -> str:
    return (folder / "near-profile.html").read_text(encoding="utf-8")


def _command(*words: str) -> list[str]:
    start = [sys.executable, "-m", "nearmalloc_tools", "profile", "--interval", "10000", "--"]
    return [*start, *words]


@pytest.mark.parametrize("program", ["python", "c"])
def test_ctrl_c_ends_the_program_and_makes_the_page(folder, tmp_path, program):
    """The terminal sends the signal to all processes of its group."""
    words = [sys.executable, "-c", _STAYS, "wait"]
    if program == "c":  # it does not handle the signal
        words = [str(folder / "planted"), "wait"]
    with subprocess.Popen(
        _command(*words),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout
        assert child.stdout.readline().strip().isdigit()
        os.killpg(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "nearmalloc: the page is near-profile.html" in said
    expected = "plant_leak" if program == "c" else "PyBytes_FromStringAndSize"
    assert expected in _page_of(tmp_path)


def test_a_process_that_ends_by_underscore_exit_has_a_page(tmp_path):
    result = _near_profile(tmp_path, "--interval", "10000", "--", sys.executable, "-c", _STAYS, "")
    assert result.returncode == 0, result.stderr
    number = result.stdout.strip()
    assert f"Process {number}," in _page_of(tmp_path)


def test_the_page_is_about_a_child_that_outlives_its_parent(tmp_path):
    """The parent is killed; the child, which allocated more, ends later by Ctrl-C."""
    with subprocess.Popen(
        _command(sys.executable, "-c", _STAYS, "wait", "fork"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as near:
        assert near.stdout and near.stderr
        numbers = {int(near.stdout.readline()) for _ in range(2)}
        (main,) = numbers & set(_children_of(near.pid))
        (child,) = numbers - {main}
        os.kill(main, signal.SIGKILL)
        waiting = near.stderr.readline()
        assert "has ended; waiting for the processes that it left" in waiting
        assert str(child) in waiting
        near.send_signal(signal.SIGINT)
        _, said = near.communicate(timeout=60)
    assert near.returncode == 137, said
    assert "(about the largest of 2 processes)" in said
    assert f"Process {child}," in _page_of(tmp_path)


def _children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


_BOTH = """
import ctypes, os, sys, threading, time
cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cpus[:1])
def free_elsewhere(blocks):
    os.sched_setaffinity(0, cpus[-1:])  # of this thread
    time.sleep(0.05)
    blocks.clear()
planted = ctypes.CDLL(sys.argv[1])
for _ in range(3000): planted.plant_growth()
kept = [bytes(3000) for _ in range(3000)]
dropped = [bytes(2000) for _ in range(3000)]
del dropped
handed = [bytes(2500) for _ in range(3000)]
other = threading.Thread(target=free_elsewhere, args=(handed,))
other.start()
other.join()
libc = ctypes.CDLL(None)
libc.near_profile_write.argtypes = [ctypes.c_void_p, ctypes.c_int]
libc.fopen.restype = ctypes.c_void_p
libc.setbuf.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
stream = libc.fopen(b"written.json", b"w")
libc.setbuf(stream, None)  # to close it would free blocks, sampled ones among them
libc.near_profile_stop()
libc.near_profile_write(stream, 1)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def kept_and_written(tmp_path_factory, moments) -> Path:
    """What a killed process kept, and what it wrote just before. It loaded a library late."""
    folder = tmp_path_factory.mktemp("kept")
    variables = {
        "LD_PRELOAD": LIBRARY,
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": "10000",
        "NEARMALLOC_PROFILE_FILE": "kept:kept.profile",
    }
    if len(cpus := sorted(os.sched_getaffinity(0))) > 1:
        nodes = f"nodes=2 cpus={cpus[0]},{cpus[-1]} distance=10,31,42,10"
        variables["NEARMALLOC_TOPOLOGY"] = nodes
    command = [sys.executable, "-c", _BOTH, str(moments / "grows.so")]
    ended = subprocess.run(command, cwd=folder, env=os.environ | variables, check=False)
    assert ended.returncode == -signal.SIGKILL
    return folder


@pytest.mark.parametrize(
    ("stack", "named"),
    [
        (["zmalloc_usable", "RM_Alloc", "open_session", "main"], 2),
        (["AllocSetAlloc", "palloc", "makeNode"], 2),
        (["g_strdup", "set_name"], 1),
        (["sqlite3Malloc", "library.so+0x123"], 1),
        (["std::vector<int>::_M_realloc_insert", "main"], 0),
        (["alloc::vec::Vec<T,A>::with_capacity_in", "main"], 0),
        (["_cgo_1234_Cfunc__Cmalloc", "runtime.asmcgocall.abi0"], 0),
        (["xmalloc", "xrealloc"], 0),
        (["sqlite3DbMallocRawNN", "sqlite3MallocZero", "f"], 2),
        (["MemoryContextAllocZeroAligned", "palloc0", "f"], 2),
        (["g_malloc_n", "f"], 1),
        (["_PyType_AllocNoTrack", "PyType_GenericAlloc", "f"], 2),
        (["ztrymalloc_usable_internal", "f"], 1),
        (["zmalloc", "alloc_session", "main"], 1),
        (["deallocate", "main"], 0),
        (["list_dealloc", "main"], 0),
        (["allocation_of", "main"], 0),
        (["zcalloc", "preallocate_cache", "main"], 1),
        ([], 0),
    ],
)
def test_a_site_has_the_name_of_what_does_more_than_allocate(stack, named):
    assert named_frame([Frame(name, "") for name in stack]) == named


def test_the_innermost_inlined_function_has_no_name_of_another():
    run, serve = Frame("Impl<std::tuple<A> >::_M_run()", "a.cc:150"), Frame("serve", "a.cc:7")
    outer = Frame("_M_run", "thread.h:9")
    assert without_false_name([run, serve, outer]) == [Frame("serve", "a.cc:150"), outer]
    for frames in ([run], [serve, outer], [Frame("answer", "a.cc:150"), serve, outer], []):
        assert without_false_name(frames) == frames
    # Two functions of one name in two classes.
    arena, buffer = Frame("Arena::reserve", "a.h:3"), Frame("Buffer::reserve", "a.h:9")
    for frames in ([arena, buffer], [arena, Frame("mid", "a.h:5"), buffer]):
        assert without_false_name(frames) == frames
    same = Frame("Buffer::reserve", "a.h:3")
    assert without_false_name([same, serve, buffer]) == [Frame("serve", "a.h:3"), buffer]


def test_what_is_kept_is_what_is_written(kept_and_written):
    written = json.loads((kept_and_written / "written.json").read_text(encoding="utf-8"))
    kept = read_plain(kept_and_written / "kept.profile")
    for name in (
        "pid",
        "mean",
        "started",
        "running",
        "samples",
        "dropped_stacks",
        "dropped_modules",
        "own_bytes",
        "slice_bytes",
    ):
        assert kept[name] == written[name], name
    assert len(kept["sites"]) == len(written["sites"]) > 10
    for one, other in zip(kept["sites"], written["sites"], strict=True):
        assert set(one) == set(other)
        for name in ("number", "frames", "allocated", "peak", "freed", "live", "remote", "moved"):
            assert one[name] == pytest.approx(other[name]), name
        assert one["moved_distance"] == other["moved_distance"]
        lives = ("lifetimes", "remote_lifetimes", "longest")
        for name in ("variance", "live_variance", "waste", *lives):
            assert one[name] == pytest.approx(other[name], rel=1e-5, abs=1e-6), name
        assert one["freed_by_heap"] == other["freed_by_heap"]
        assert one["by_lifetime"] == pytest.approx(other["by_lifetime"], abs=0.001)
        assert one["freed_on_node"] == other["freed_on_node"]
        assert one["by_lifetime"][-1] == 0, "nothing lives 100 s"
        assert one["freed_on_node"][2:] == [0] * 6, "two nodes"
    handed = max(kept["sites"], key=lambda site: site["remote"]["bytes"])
    assert handed["remote"]["bytes"] == pytest.approx(3000 * 2533, rel=0.3)
    assert 0.05 < handed["remote_lifetimes"] / handed["remote"]["blocks"] < handed["longest"]
    if len(os.sched_getaffinity(0)) > 1:
        moved = handed["moved"]["bytes"]
        assert handed["moved_distance"] == 42 * moved > 0, "from the thread to the block"
    names = [
        [(site.caller, site.stack[0].place) for site in read(kept_and_written / file).sites]
        for file in ("kept.profile", "written.json")
    ]
    assert names[0] == names[1]
    assert "plant_growth" in [function for function, _ in names[0]]


def test_a_profile_that_was_written_is_shown(kept_and_written):
    for name in ("kept.profile", "written.json"):
        result = run_command("profile", "show", name, "--out", f"{name}.html", cwd=kept_and_written)
        assert (result.returncode, result.stdout) == (0, ""), result.stderr
        assert "MiB live at the end" in result.stderr
        assert f"nearmalloc: the page is {name}.html" in result.stderr
        page = (kept_and_written / f"{name}.html").read_text(encoding="utf-8")
        assert "PyBytes_FromStringAndSize" in page
        assert "had no room" not in page


def test_what_is_no_profile_is_not_shown(kept_and_written, tmp_path):
    whole = (kept_and_written / "kept.profile").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:5000])
    (tmp_path / "other").write_bytes(whole[:8] + b"\1" + whole[9:])
    (tmp_path / "former").write_bytes(b"nearkpt1" + whole[8:])
    (tmp_path / "last").write_bytes(b"nearkpt4" + whole[8:])
    (tmp_path / "longer").write_bytes(whole[:20] + b"\1" + whole[21:])
    (tmp_path / "changing").write_bytes(whole[:28] + b"\1" + whole[29:])
    (tmp_path / "text").write_text("no profile", encoding="ascii")
    for name, why in (
        ("cut", "the profile is cut"),
        ("other", "of another version"),
        ("former", "of another version"),
        ("last", "of another version"),
        ("longer", "of another version"),
        ("changing", "while it rewrote the profile"),
        ("text", "is no profile"),
        ("none", "No such file"),
    ):
        result = run_command("profile", "show", name, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("nearmalloc: ") and why in result.stderr
    assert not (tmp_path / "near-profile.html").exists()


_LOADS = """
import ctypes, os, sys
libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
for library in libraries:
    for _ in range(200): library.plant_growth()
    list(map(lambda _: library.plant_growth(), range(200)))  # another stack
os.kill(os.getpid(), 9)
"""


def test_code_that_has_no_room_is_said(tmp_path, moments):
    """The names of the twelve libraries do not fit into the file."""
    folder = tmp_path.joinpath(*["long" * 50] * 15)
    folder.mkdir(parents=True)
    paths = [shutil.copy(moments / "grows.so", folder / f"{i}.so") for i in range(12)]
    variables = {
        "LD_PRELOAD": LIBRARY,
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": "1000",
        "NEARMALLOC_PROFILE_FILE": "kept:kept.profile",
    }
    command = [sys.executable, "-c", _LOADS, *map(str, paths)]
    ended = subprocess.run(command, cwd=tmp_path, env=os.environ | variables, check=False)
    assert ended.returncode == -signal.SIGKILL
    found = read_plain(tmp_path / "kept.profile")
    listed = {module["file"] for module in found["modules"]} & set(map(str, paths))
    assert 5 <= len(listed) < 12
    assert found["dropped_modules"] == 12 - len(listed)
    page = build(read(tmp_path / "kept.profile"), "long names", Leaked())
    assert f"{12 - len(listed)} pieces of code had no room" in page


def test_of_many_processes_the_files_do_not_stay(kept_and_written, tmp_path):
    """A build has thousands of processes, each with a file."""
    kept, running = kept_and_written / "kept.profile", tmp_path / str(os.getpid())
    for files in ([], [running]):
        for number in range(20):  # more than any process has
            shutil.copy(kept, tmp_path / str((1 << 30) + number))
        for file in files:
            shutil.copy(kept, file)
        prune(tmp_path)
        left = set(tmp_path.iterdir())
        # All are equally large, so that of the process that runs may be the largest.
        assert 1 <= len(left) <= 1 + len(files) and left.issuperset(files)


def test_a_file_with_another_build_id_gives_no_names(folder):
    module = Module(0x1000, 0x9000, 0x1000, "00" * 20, str(folder / "planted"))
    assert Symbols([module], [0x1200]).frames(0x1200) == [Frame("planted+0x1200", "")]
    assert Symbols([], [0x1200]).frames(0x1200) == [Frame("0x1200", "")]


def test_only_regular_files_of_code_are_read(folder, tmp_path):
    """A process can name any file: one without an end, or one that waits for a writer."""
    pipe, cut, forged = (tmp_path / name for name in ("pipe", "cut", "forged"))
    os.mkfifo(pipe)
    cut.write_bytes((folder / "planted").read_bytes()[:30])
    forged.write_bytes(b"\x7fELF\x02" + b"\xff" * 59)
    files = [str(folder / "planted"), str(pipe), "/dev/zero", str(cut), str(forged)]
    script = (
        "import sys; from nearmalloc_tools.profile.symbols import segments\n"
        "for file in sys.argv[1:]: print(len(segments(file)[0]))"
    )
    words = ["prlimit", "--as=4000000000", sys.executable, "-c", script, *files]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    loaded, *others = said.stdout.split()
    assert int(loaded) > 1 and others == ["0"] * 4


_SAYS_ITS_USER = """#!/bin/sh
while read -r address; do
  echo "$address"
  echo "user $(id -u):$(id -G) $6"
  echo "??:0"
done
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file to another user")
def test_root_lets_addr2line_read_a_file_with_the_rights_of_its_owner(
    folder, tmp_path, monkeypatch
):
    copy = shutil.copy(folder / "planted", tmp_path)
    ((offset, length, _), *_), build_id = segments(str(copy))

    def reader() -> str:
        module = Module(0x1000, 0x1000 + length, offset, build_id, str(copy))
        return Symbols([module], [0x1000]).frames(0x1000)[0].function

    with tempfile.TemporaryDirectory() as name:  # pytest's folders are root's alone
        tool = Path(name) / "addr2line"
        tool.write_text(_SAYS_ITS_USER)
        tool.chmod(0o755)
        tool.parent.chmod(0o755)
        monkeypatch.setattr("nearmalloc_tools.profile.symbols.shutil.which", lambda _: str(tool))
        assert re.fullmatch(f"user 0:.* {re.escape(str(copy))}", reader())
        os.chown(copy, 65534, 0)
        assert re.fullmatch(r"user 65534:65534 /proc/self/fd/\d+", reader())


def test_amounts():
    assert [amount(size) for size in (0, 1023, 1536, 5 << 30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
    ]
    assert amount(3 << 40) == "3.0 TiB"


def test_names_of_c_plus_plus_are_short_and_whole_in_the_tooltip(profile):
    whole = "void std::vector<Row, std::allocator<Row> >::_M_realloc_insert<Row>(Row&&)"
    site = Site(
        [Frame(whole, "")],
        1,
        dict.fromkeys(MEASURES, 10),
        1,
        1,
        0,
        0,
        0,
        0,
        [],
    )
    text = build(Profile(profile.summary, [site]), "short", Leaked())
    escaped = whole.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    short = "std::vector&lt;Row&gt;::_M_realloc_insert"
    assert f'<summary title="{escaped}">{short} <small>' in text
    assert f'<li title="{escaped}">{short}</li>' in text
    tree = json.loads(text.split('id="data">')[1].split("</script>")[0])["tree"]
    assert (tree["c"][0]["n"], tree["c"][0]["s"]) == (
        whole,
        "std::vector<Row>::_M_realloc_insert",
    )
    assert "s" not in tree


def test_names_cannot_end_the_script(profile):
    evil = Site(
        [Frame("</script><script>alert(1)", "")],
        1,
        dict.fromkeys(MEASURES, 10),
        1,
        1,
        0,
        0,
        0,
        0,
        [],
    )
    text = build(Profile(profile.summary, [evil]), "evil", Leaked())
    assert "alert(1)" in text
    assert "<script>alert" not in text


_GROWS = """
import ctypes, sys
libc = ctypes.CDLL(None)
planted = ctypes.CDLL(sys.argv[1])
libc.near_profile_write.argtypes = [ctypes.c_void_p, ctypes.c_int]
libc.fopen.restype = ctypes.c_void_p
planted.plant_cache.restype = ctypes.c_void_p
libc.free.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
def write(name):
    stream = libc.fopen(name.encode(), b"w")
    assert libc.near_profile_write(stream, 1) == 0
    libc.fclose(stream)
cache = [planted.plant_cache() for _ in range(2000)]
write("before.json")
for block in cache: libc.free(block)
for _ in range(3000): planted.plant_growth()
write("after.json")
"""


@pytest.fixture(scope="module")
def moments(folder) -> Path:
    """Two profiles of one process, between which one site grew and another shrank."""
    source = """
        #include <stdlib.h>
        #include <string.h>
        void *plant_growth(void) { return memset(malloc(1000), 1, 1000); }
        void *plant_cache(void) { return memset(malloc(700), 1, 700); }
    """
    (folder / "grows.c").write_text(source, encoding="ascii")
    words = ["cc", "-g", "-O1", "-fno-builtin", "-shared", "-fPIC", "grows.c", "-o", "grows.so"]
    subprocess.run(words, cwd=folder, check=True)
    variables = {
        "LD_PRELOAD": LIBRARY,
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": "10000",
        "NEARMALLOC_PROFILE_FILE": "unused",
    }
    command = [sys.executable, "-c", _GROWS, str(folder / "grows.so")]
    subprocess.run(command, cwd=folder, env=os.environ | variables, check=True)
    return folder


def test_growth_is_told(moments):
    result = subprocess.run(
        [sys.executable, "-m", "nearmalloc_tools", "profile", "diff", "before.json", "after.json"],
        cwd=moments,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = result.stdout.splitlines()
    assert lines[0].startswith("live: ")
    grew = next(line for line in lines if "plant_growth" in line)
    shrank = next(line for line in lines if "plant_cache" in line)
    assert grew == lines[1], "it grew most"
    assert grew.split()[0].startswith("+") and "chance" not in grew
    assert shrank.split()[0].startswith("-") and "chance" not in shrank
    changes = compare(read(moments / "before.json"), read(moments / "after.json"))
    by_name = {change.caller: change for change in changes}
    assert by_name["plant_growth"].growth == pytest.approx(3_000_000, rel=0.35)
    assert by_name["plant_cache"].growth == pytest.approx(-1_400_000, rel=0.35)
    assert (by_name["plant_growth"].before, by_name["plant_cache"].after) == (0, 0)
    site = read(moments / "after.json").sites[0]
    first, last = (
        Profile({}, [replace(site, sums=dict.fromkeys(MEASURES, size))]) for size in (100, 130)
    )
    (change,) = compare(first, last)
    assert (change.growth, change.allocated, change.remote, change.moved) == (30,) * 4
    assert (change.remote_life, change.distance) == (None, 0), "nothing was added"
    text = (moments / "near-diff.html").read_text(encoding="utf-8")
    assert "plant_growth" in text and "plant_cache" in text
    assert "http" not in text.replace("http-equiv", "")


def test_waits_and_distances_are_those_of_what_was_freed_meanwhile(moments):
    site = read(moments / "after.json").sites[0]
    first, last = (
        Profile(
            {},
            [
                replace(
                    site,
                    sums=dict.fromkeys(MEASURES, size),
                    remote_blocks=blocks,
                    remote_seconds=seconds,
                    moved_distance=distance,
                )
            ],
        )
        for size, blocks, seconds, distance in ((100, 5, 1.0, 100), (130, 9, 3.0, 730))
    )
    (change,) = changes = compare(first, last)
    assert (change.remote_life, change.distance) == (0.5, 21)
    rows = page_of_growth(first, last, changes, "growth")
    assert "<td>30 B</td><td>500 ms</td>" in rows and "<td>30 B</td><td>21</td>" in rows
    earlier = Profile({}, [replace(first.sites[0], remote_seconds=None)])
    assert "<td>30 B</td><td>not known</td>" in page_of_growth(
        earlier, last, compare(earlier, last), "growth"
    )


def test_as_many_sites_grow_and_shrink_on_the_page_as_in_the_text(moments):
    real = read(moments / "after.json")
    site = real.sites[0]

    def moment(grown: bool) -> Profile:
        sizes = [1000 + number * (100 if number < 50 else -10) * grown for number in range(100)]
        return Profile(
            real.summary,
            [
                replace(
                    site,
                    stack=[Frame(f"function{number}", "")],
                    sums=dict.fromkeys(MEASURES, size),
                )
                for number, size in enumerate(sizes)
            ],
        )

    first, last = moment(False), moment(True)
    changes = compare(first, last)
    assert len(changes) == 99, "one has not changed"
    page = page_of_growth(first, last, changes, "growth")
    others = "and 39 more, which changed less"
    assert page.count("<details>") == 60 and f"<p>{others}</p>" in page
    summary = text_of_growth(first, last, changes)
    assert summary.count("95 %:") == 60 and summary.endswith(f"\n{others}")
    assert others not in page_of_growth(first, last, changes[:60], "growth")
    page = build(last, "many", Leaked())
    assert page.count("<p>and 70 more</p>") == len(MEASURES), "30 of 100 in each table"


def test_no_growth_is_told_between_equal_profiles(moments):
    profile = read(moments / "before.json")
    assert compare(profile, profile) == []


def test_a_file_that_is_no_profile_has_no_growth(moments):
    (moments / "text.json").write_text("[]", encoding="ascii")
    for name, why in (("text.json", "is no profile"), ("none.json", "No such file")):
        result = subprocess.run(
            [sys.executable, "-m", "nearmalloc_tools", "profile", "diff", "before.json", name],
            cwd=moments,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("nearmalloc: ") and why in result.stderr


def _kept(folder: Path, *command: str | Path) -> Path:
    """The profile that a program kept in the folder."""
    variables = {
        "LD_PRELOAD": LIBRARY,
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": "1000",
        "NEARMALLOC_PROFILE_FILE": f"kept:{folder}/kept.profile",
    }
    subprocess.run(command, env=os.environ | variables, check=False)
    return folder / "kept.profile"


def _functions(profile: Profile) -> set[str]:
    return {frame.function for site in profile.sites for frame in site.stack}


def test_a_kept_profile_gives_no_names_of_a_file_that_has_changed(tmp_path, moments):
    source = (moments / "grows.c").read_text(encoding="ascii")
    (tmp_path / "other.c").write_text(source.replace("plant_growth", "other_growth"))
    for build_id in ("sha1", "none"):
        words = ["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", f"-Wl,--build-id={build_id}"]
        library = tmp_path / f"{build_id}.so"
        subprocess.run([*words, moments / "grows.c", "-o", library], check=True)
        kept = _kept(tmp_path, sys.executable, "-c", _LOADS, library)
        assert "plant_growth" in _functions(read(kept))
        if build_id == "none":
            time.sleep(2)  # the profile has its start in whole seconds
        subprocess.run([*words, tmp_path / "other.c", "-o", library], check=True)
        segments.cache_clear()
        functions = _functions(read(kept))
        assert not functions & {"plant_growth", "other_growth"}
        assert any(name.startswith(f"{library.name}+0x") for name in functions)


def test_a_file_may_have_any_bytes_in_its_name(folder, tmp_path):
    planted = Path(os.fsdecode(os.fsencode(tmp_path) + b"/pl\xe4nted"))
    shutil.copy(folder / "planted", planted)
    assert "plant_leak" in _functions(read(_kept(tmp_path, planted)))
    variables = {
        "LD_PRELOAD": LIBRARY,
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_FORMAT": "json",
        "NEARMALLOC_PROFILE_FILE": str(tmp_path / "written"),
    }
    subprocess.run([planted], env=os.environ | variables, check=False)
    written = tmp_path / "written"
    assert os.fsencode(planted) in written.read_bytes()
    assert "plant_leak" in _functions(read(written))


_MISSING = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")
def test_the_pages_work_in_a_browser(profile, folder, moments):
    page = folder / "page.html"
    lost = next(site for site in profile.sites if site.caller == "plant_leak")
    leaks = [Leak(lost, live=20, direct=20, blocks=20.0, bytes=20_000.0, variance=1e6)]
    summary = Leaked(leaks, events=["1.0 s ago: node 0 grew by 2048 KiB"])
    page.write_text(build(profile, "planted", summary), encoding="utf-8")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.get(page.as_uri())
        boxes = "#flame button"
        assert any(box.text == "plant_leak" for box in driver.find_elements(By.CSS_SELECTOR, boxes))
        driver.find_element(By.CSS_SELECTOR, "[data-measure=waste]").click()
        names = [box.text for box in driver.find_elements(By.CSS_SELECTOR, boxes)]
        assert "plant_waste" in names
        driver.find_elements(By.CSS_SELECTOR, boxes)[names.index("plant_waste")].click()
        assert driver.find_element(By.ID, "selected").text.startswith("plant_waste: ")
        chosen = driver.find_elements(By.CSS_SELECTOR, "[data-measure]")
        assert len(chosen) == len(MEASURES)
        for button in chosen:
            button.click()
            pressed = driver.find_elements(By.CSS_SELECTOR, "[aria-pressed=true]")
            assert [each.text for each in pressed] == [button.text]
        text = driver.find_element(By.TAG_NAME, "body").text
        assert "1.0 s ago: node 0 grew by 2048 KiB" in text
        assert re.search(r"^19\.5 KiB .* nothing points to them high$", text, re.MULTILINE), text
        for row in driver.find_elements(By.TAG_NAME, "summary"):
            row.click()
        assert driver.find_element(By.CSS_SELECTOR, "details ol li").is_displayed()
        first, last = read(moments / "before.json"), read(moments / "after.json")
        text = page_of_growth(first, last, compare(first, last), "growth")
        page.write_text(text, encoding="utf-8")
        driver.get(page.as_uri())
        names = [box.text for box in driver.find_elements(By.CSS_SELECTOR, boxes)]
        assert "plant_growth" in names and "plant_cache" not in names
        driver.find_element(By.CSS_SELECTOR, "[data-measure=shrank]").click()
        names = [box.text for box in driver.find_elements(By.CSS_SELECTOR, boxes)]
        assert "plant_cache" in names and "plant_growth" not in names
        assert driver.get_log("browser") == []
    finally:
        driver.quit()
